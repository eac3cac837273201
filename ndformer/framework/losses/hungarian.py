"""The Hungarian assignment (Kuhn 1955; shortest augmenting paths of Jonker and Volgenant 1987): who takes whom."""

import numpy as np


def hungarian(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns (each min(R, C) long, rows ascending) of the pairs of (R, C) whose costs have the least sum.

    What scipy's linear_sum_assignment gives, without scipy.
    """
    cost = np.asarray(cost, np.float64)
    if cost.shape[0] > cost.shape[1]:
        columns, rows = hungarian(cost.T)
        order = rows.argsort()
        return rows[order], columns[order]
    if not np.isfinite(cost).all():
        raise ValueError("costs of an assignment are finite numbers")
    n, m = cost.shape
    u, v = np.zeros(n), np.zeros(m)  # prices: cost - u - v is never negative, and 0 for pairs
    owner = np.full(m, -1)  # the row of each column
    for row in range(n):
        least = np.full(m, np.inf)  # of paths from the row to each column
        before = np.full(m, -1)  # the column that such a path comes from
        done = np.zeros(m, bool)
        at, here, length = -1, row, 0.0
        while True:
            way = length + cost[here] - u[here] - v
            shorter = ~done & (way < least)
            least[shorter], before[shorter] = way[shorter], at
            at = int(np.where(done, np.inf, least).argmin())
            done[at], length = True, least[at]
            if owner[at] < 0:
                break
            here = int(owner[at])
        u[row] += length
        passed = done & (owner >= 0)
        u[owner[passed]] += length - least[passed]
        v[done] -= length - least[done]
        while at >= 0:  # turn the path over
            owner[at], at = (row if before[at] < 0 else owner[before[at]]), before[at]
    columns = np.full(n, -1)
    columns[owner[owner >= 0]] = np.flatnonzero(owner >= 0)
    return np.arange(n), columns
