"""A slow reference of nuScenes' detection metric, rule by rule in plain Python."""

import math

import numpy as np

REACH = dict(car=50, truck=50, bus=50, trailer=50, construction_vehicle=50, pedestrian=40, motorcycle=40)
REACH |= dict(bicycle=40, traffic_cone=30, barrier=30)
NAN = float("nan")


def in_rack(place, rack):
    """Return whether a position lies in a rack, faces included."""
    w, length, h = rack["size"]
    for axis, side in zip(np.asarray(rack["rotation"]).T, (length, w, h)):
        along = sum(a * (p - c) for a, p, c in zip(axis, place, rack["center"]))
        if not -side / 2 <= along <= side / 2:
            return False
    return True


def counts(box, sample):
    ego = sample["ego"]
    if not math.hypot(box["center"][0] - ego[0], box["center"][1] - ego[1]) < REACH[box["name"]]:
        return False
    if box.get("points") == 0:
        return False
    cycle = box["name"] in ("bicycle", "motorcycle")
    return not (cycle and any(in_rack(box["center"], rack) for rack in sample["racks"]))


def interpolate(x, xs, ys):
    """Interpolate linearly at x, with the last of several equal xs and 0 beyond the last."""
    if x > xs[-1]:
        return 0.0
    if x <= xs[0] and xs[0] != x:
        return ys[0]
    i = max(k for k in range(len(xs)) if xs[k] <= x)
    if xs[i] == x or i + 1 == len(xs):
        return ys[i]
    return ys[i] + (ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) * (x - xs[i])


def errors_of(truth, found):
    smaller = math.prod(min(a, b) for a, b in zip(truth["size"], found["size"]))
    union = math.prod(truth["size"]) + math.prod(found["size"]) - smaller
    period = math.pi if truth["name"] == "barrier" else 2 * math.pi
    turn = abs(truth["yaw"] - found["yaw"]) % period
    return dict(
        ATE=math.hypot(*(a - b for a, b in zip(truth["center"][:2], found["center"][:2]))),
        ASE=1 - smaller / union,
        AOE=min(turn, period - turn),
        AVE=math.hypot(*(a - b for a, b in zip(truth["velocity"], found["velocity"]))),
        AAE=NAN if truth["attribute"] == "" else float(truth["attribute"] != found["attribute"]),
    )


def matched(samples, name, threshold):
    """Match predictions by score: return the number of objects, hits, scores, and errors of the hits."""
    truth = {i: [b for b in s["truth"] if b["name"] == name and counts(b, s)] for i, s in enumerate(samples)}
    found = [(i, b) for i, s in enumerate(samples) for b in s["found"] if b["name"] == name and counts(b, s)]
    order = sorted(range(len(found)), key=lambda k: (-found[k][1]["score"], -k))
    hits, scores, errors, used = [], [], [], set()
    for k in order:
        i, box = found[k]
        free = [j for j in range(len(truth[i])) if (i, j) not in used]
        far = {j: math.dist(truth[i][j]["center"][:2], box["center"][:2]) for j in free}
        best = min(free, key=lambda j, far=far: far[j], default=-1)  # the first of the nearest
        hit = best >= 0 and far[best] < threshold
        if hit:
            used.add((i, best))
            errors.append((box["score"], errors_of(truth[i][best], box)))
        hits.append(hit)
        scores.append(box["score"])
    return sum(map(len, truth.values())), hits, scores, errors


def of_class(samples, name):
    averages, errors = [], dict.fromkeys(("ATE", "ASE", "AOE", "AVE", "AAE"), 1.0)
    for threshold in (0.5, 1.0, 2.0, 4.0):
        objects, hits, scores, pairs = matched(samples, name, threshold)
        if not objects or not any(hits):
            averages.append(0.0)
            continue
        recall = [sum(hits[: k + 1]) / objects for k in range(len(hits))]
        precision = [sum(hits[: k + 1]) / (k + 1) for k in range(len(hits))]
        at = np.linspace(0, 1, 101)
        averages.append(sum(max(0, interpolate(r, recall, precision) - 0.1) for r in at[11:]) / 90 / 0.9)
        if threshold == 2.0:
            confidence = [interpolate(r, recall, scores) for r in at]
            last = max((k for k in range(101) if confidence[k] != 0), default=0)
            for error in errors if last >= 11 else ():
                known, running = [], []
                for _, pair in pairs:
                    known += [] if math.isnan(pair[error]) else [pair[error]]
                    running.append(sum(known) / len(known) if known else 0.0)
                running = running if known else [1.0] * len(pairs)
                up = [s for s, _ in pairs][::-1], running[::-1]
                values = [clamped(c, *up) for c in confidence[11 : last + 1]]
                errors[error] = sum(values) / len(values)
    without = dict(traffic_cone=("AOE", "AVE", "AAE"), barrier=("AVE", "AAE")).get(name, ())
    return averages, {error: NAN if error in without else value for error, value in errors.items()}


def clamped(x, xs, ys):
    """Interpolate as interpolate() does, but with the last value beyond the last x."""
    return ys[-1] if x > xs[-1] else interpolate(x, xs, ys)


def measured(samples):
    rows = {name: of_class(samples, name) for name in REACH}
    average = sum(sum(averages) / 4 for averages, _ in rows.values()) / 10
    values = dict(mAP=average)
    for error in ("ATE", "ASE", "AOE", "AVE", "AAE"):
        own = [errors[error] for _, errors in rows.values() if not math.isnan(errors[error])]
        values[f"m{error}"] = sum(own) / len(own)
    score = sum(max(0, 1 - value) for name, value in values.items() if name != "mAP")
    return values | dict(NDS=(5 * average + score) / 10)
