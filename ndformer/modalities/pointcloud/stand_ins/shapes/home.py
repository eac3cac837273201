"""Furniture, randomly generated from simple solids. y is up, the front faces z."""

import numpy as np

from ndformer.modalities.pointcloud.stand_ins.shapes.solids import Mesh, arc, ball, both, box, cylinder, join, tube


class Dice:
    """A random generator with short names for the draws that shapes need."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def coin(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def count(self, low: int, high: int) -> int:
        """Return a random integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, *options: str) -> str:
        return options[self.count(0, len(options) - 1)]


def corners(part: Mesh, x: float, z: float) -> Mesh:
    """Return four copies of a part at (+-x, +-z), mirrored so that they lean outwards alike."""
    return both(both(part.moved(x, 0, z), "x"), "z")


def row(part: Mesh, places: np.ndarray, axis: str = "x") -> Mesh:
    return join([part.moved(**{axis: float(place)}) for place in places])


def spread(count: int, width: float) -> np.ndarray:
    """Return the middles of `count` equal parts of a width around 0."""
    return ((np.arange(count) + 0.5) / count - 0.5) * width


def four_legs(dice: Dice, x: float, height: float, z: float) -> Mesh:
    """Return straight, tapered or splayed legs, round or square, for a board of size x, z."""
    thick, splay = dice(0.03, 0.08), dice(0, 0.15) * dice.coin()
    taper = dice(0.6, 1.3)
    if dice.coin():
        leg = box(thick * taper, height, thick * taper, (1 / taper, 1 / taper), (-splay, -splay)).moved(splay, 0, splay)
    else:
        leg = tube([(splay, 0, splay), (0, height, 0)], thick * taper / 1.6, end=thick / 1.6)
    legs = [corners(leg, x / 2 - thick, z / 2 - thick)]
    if dice.coin(0.3):  # rails between them
        bar = box(x - 2 * thick, thick / 2, thick / 2).moved(0, height * dice(0.15, 0.6), z / 2 - thick)
        legs.append(both(bar, "z"))
    return join(legs)


def foot(dice: Dice, radius: float, height: float) -> Mesh:
    """Return a column of a given height on a disc or on a star of bars."""
    column = cylinder(dice(0.04, 0.1), height, dice(0.5, 1))
    if dice.coin():
        return join([column, cylinder(radius, dice(0.03, 0.06), dice(0.6, 1))])
    star, bar = dice.count(3, 5), tube([(0, 0.08, 0), (radius, 0.03, 0)], 0.035)
    return join([column, *(bar.turned("y", i / star) for i in range(star))])


def table(dice: Dice) -> Mesh:
    x, y, z = dice(0.8, 1.7), dice(0.35, 1.0), dice(0.6, 1.1)
    board = dice(0.03, 0.12)
    style = dice.pick("legs", "legs", "foot", "panels", "trestle")
    round_top = style == "foot" or (style == "legs" and dice.coin(0.2))
    top = cylinder(0.5, board, sides=24).scaled(x, 1, z) if round_top else box(x, board, z)
    inset = 0.7 if round_top else dice(0.85, 1)
    parts = [top.moved(y=y)]
    if style == "foot":
        parts.append(foot(dice, dice(0.25, 0.4) * min(x, z), y))
    elif style == "panels":
        parts.append(both(box(dice(0.03, 0.08), y, z * inset).moved(x / 2 * inset - 0.04)))
    elif style == "trestle":
        post = join([box(0.08, y, 0.1), box(0.1, 0.06, z * 0.8), box(0.1, 0.05, z * 0.7).moved(y=y - 0.05)])
        parts += [both(post.moved(x * dice(0.28, 0.4))), box(x * 0.6, 0.06, 0.05).moved(y=y * dice(0.2, 0.6))]
    else:
        parts.append(four_legs(dice, x * inset, y, z * inset))
    if style in ("legs", "panels"):
        if dice.coin(0.35):  # a shelf below
            parts.append(box(x * inset * 0.92, 0.03, z * inset * 0.92).moved(y=y * dice(0.15, 0.5)))
        if dice.coin(0.35):  # an apron
            tall = dice(0.06, 0.16)
            parts.append(box(x * inset * 0.9, tall, z * inset * 0.9).moved(y=y - tall))
    return join(parts)


def back(dice: Dice, x: float, height: float) -> Mesh:
    """Return the back of a chair: solid, slats, cross bars or a frame; it stands on y = 0."""
    thick = dice(0.03, 0.07)
    style = dice.pick("solid", "slats", "bars", "frame", "round")
    if style == "solid":
        return box(x, height, thick, (dice(0.75, 1), 1))
    if style == "round":
        hoop = np.insert(arc(x / 2, 0, 0.5, 10) * np.array([1, 2 * height / x]), 2, 0, axis=1)
        return join([tube(hoop, thick * 0.5), row(cylinder(thick * 0.3, height * 0.85), spread(3, x * 0.8))])
    sides = both(box(thick, height, thick).moved(x / 2 - thick / 2))
    rail = box(x, dice(0.08, 0.16), thick * 0.8)
    parts = [sides, rail.moved(y=height - 0.14)]
    if style == "slats":
        n = dice.count(3, 6)
        parts.append(row(box(0.5 * x / n, height * 0.9, thick * 0.5), spread(n, x - thick)))
    elif style == "bars":
        parts += [rail.moved(y=height * share) for share in (0.2, 0.5)[: dice.count(1, 2)]]
    else:
        parts += [rail.moved(y=height * 0.15), box(x * 0.8, height * 0.7, thick * 0.3).moved(y=height * 0.2)]
    return join(parts)


def chair(dice: Dice) -> Mesh:
    x, y, z = dice(0.5, 0.75), dice(0.3, 0.55), dice(0.5, 0.7)
    seat = dice(0.04, 0.14)
    bottom = box(x, seat, z, (dice(0.85, 1), 1)) if dice.coin(0.75) else cylinder(0.5, seat, sides=20).scaled(x, 1, z)
    parts = [bottom.moved(y=y)]
    style = dice.pick("legs", "legs", "foot", "sled", "block")
    if style == "foot":
        parts.append(foot(dice, 0.5 * x, y))
    elif style == "sled":
        side = [(0, y, -z / 2.2), (0, 0.03, -z / 2.2), (0, 0.03, z / 2.2), (0, y, z / 2.2)]
        parts.append(both(tube(side, 0.025).moved(x / 2 - 0.03)))
    elif style == "block":
        parts.append(box(x * 0.9, y, z * 0.9))
    else:
        parts.append(four_legs(dice, x, y, z))
    tall = dice(0.3, 0.9)
    lean = back(dice, x, tall).turned("x", -dice(0, 0.05))
    parts.append(lean.moved(0, y + seat * 0.5, -z / 2 + 0.03))
    if dice.coin(0.4):
        high, thick = dice(0.15, 0.28), dice(0.03, 0.08)
        arm = join([box(thick, high, thick).moved(z=z * 0.3), box(thick, thick, z * 0.9).moved(y=high)])
        parts.append(both(arm.moved(x / 2 - thick / 2, y + seat * 0.5)))
    return join(parts)


def sofa(dice: Dice) -> Mesh:
    """Return a long seat between two arms, in front of a back of the full width."""
    seats = dice.count(1, 4)
    x, y, z = seats * dice(0.42, 0.6) + 0.2, dice(0.2, 0.35), dice(0.6, 0.95)
    arm, thick = dice(0.08, 0.24), dice(0.12, 0.25)
    tall, high = y + dice(0.2, 0.5), y + dice(0.08, 0.28)
    wide = x + 2 * arm
    parts = [box(x, y, z), box(wide, tall, thick, (1, dice(0.5, 1))).moved(z=-z / 2 + thick / 2)]
    style = dice.pick("box", "round", "sloped")
    if style == "round":
        roll = cylinder(arm * 0.6, z, sides=12).turned("x", 0.25).moved(0, high, -z / 2)
        side = join([box(arm, high, z), roll])
    else:
        side = box(arm, high, z, (1, dice(0.6, 1) if style == "sloped" else 1))
    parts.append(both(side.moved(x / 2 + arm / 2)))
    if dice.coin(0.8):  # cushions
        plump, deep = dice(0.06, 0.14), z - thick
        pad = box(x / seats * 0.94, plump, deep * 0.96, (0.92, 0.94)).moved(0, y, thick / 2)
        parts.append(row(pad, spread(seats, x)))
        if dice.coin():
            upright = box(x / seats * 0.9, tall - y, 0.12, (0.9, 0.6), (0, -0.04)).moved(0, y, -z / 2 + thick + 0.08)
            parts.append(row(upright, spread(seats, x)))
    if seats > 1 and dice.coin(0.25):  # an L
        chaise = box(x / seats, y, dice(0.3, 0.7)).moved(x / 2 - x / seats / 2, 0, z / 2 + 0.15)
        parts.append(chaise if dice.coin() else chaise.mirrored("x"))
    if dice.coin(0.6):
        lift = dice(0.05, 0.15)
        legs = corners(cylinder(0.035, lift, 1.3), wide / 2 - 0.08, z / 2 - 0.08)
        return join([join(parts).moved(y=lift), legs])
    return join(parts)


def bed(dice: Dice) -> Mesh:
    """Return a mattress with pillows on a frame; sometimes a bunk bed, or with a canopy."""
    x, z, y = dice(0.6, 1.3), dice(1.3, 1.8), dice(0.12, 0.4)
    soft, post = dice(0.1, 0.25), dice(0.05, 0.09)
    pillows = dice.count(1, 2)
    place = spread(pillows, x)
    if dice.coin():
        pillow = ball(0.38 * x / pillows, 0.08, 0.15)
    else:
        pillow = box(0.75 * x / pillows, 0.1, 0.26, (0.8, 0.7))
    berth = [box(x, soft, z * 0.97, (0.97, 0.98)), row(pillow.moved(0, soft + 0.03, -z / 2 + 0.22), place)]
    if dice.coin():  # a blanket over the lower part
        berth.append(box(x * 1.04, soft + 0.03, z * dice(0.4, 0.65)).moved(z=z * 0.16))
    berth = [*berth, box(x + 0.06, 0.08, z).moved(y=-0.08)]
    head, tail = y + soft + dice(0.15, 0.6), y + soft * dice(0, 1.5)
    style = dice.pick("plain", "plain", "plain", "bunk", "canopy")
    parts = [join(berth).moved(y=y)]
    if style == "plain":
        board = box(x + 0.06, head, dice(0.04, 0.1), (dice(0.7, 1), 1))
        if dice.coin(0.4):
            bars = row(box(0.05, head, 0.04), spread(dice.count(4, 8), x))
            board = join([bars, box(x + 0.1, 0.07, 0.06).moved(y=head), box(x, y, 0.06)])
        parts.append(board.moved(z=-z / 2 - 0.03))
        if dice.coin(0.6):
            parts.append(box(x + 0.06, tail, 0.06).moved(z=z / 2 + 0.03))
        if dice.coin():
            parts.append(box(x, y, z * 0.95))
        else:
            parts.append(corners(box(post, y, post), x / 2 - post, z / 2 - post))
    else:
        full = y + dice(0.8, 1.1)
        parts.append(corners(box(post, full + 0.25, post), x / 2, z / 2))
        if style == "bunk":
            parts += [join(berth).moved(y=full - 0.1)]
            rungs = [box(0.3, 0.03, 0.03).moved(y=full * i / 5) for i in range(1, 5)]
            ladder = join([both(box(0.03, full, 0.03).moved(0.15)), *rungs])
            parts.append(ladder.moved(x * dice(-0.2, 0.2), 0, z / 2 + 0.04))
        else:
            rails = both(box(post, post, z).moved(x / 2)), both(box(x, post, post).moved(z=z / 2), "z")
            parts.append(join(rails).moved(y=full + 0.2))
            if dice.coin():
                parts.append(box(x, 0.02, z).moved(y=full + 0.25))
    return join(parts)


def night_stand(dice: Dice) -> Mesh:
    """Return a small cabinet: drawers with knobs or bars, open shelves, a projecting top."""
    x, y, z = dice(0.45, 0.8), dice(0.45, 1.0), dice(0.4, 0.6)
    wall, levels = dice(0.025, 0.05), dice.count(1, 4)
    open_levels = dice.count(0, 1) if levels > 1 else 0
    parts = [both(box(wall, y, z).moved(x / 2 - wall / 2)), box(x, y, wall).moved(z=-z / 2)]
    parts += [box(x, wall, z).moved(y=y * i / levels * 0.97) for i in range(levels + 1)]
    tall, wide = y / levels - wall, x - 2 * wall
    bar, jut = dice.coin(), dice(0.01, 0.04)
    knob = box(wide * 0.4, 0.03, 0.04) if bar else ball(0.035, 0.035, 0.035, 8)
    opening = dice.count(0, levels - 1)
    for level in range(levels):
        base = y * level / levels * 0.97 + wall
        if open_levels and level == opening:
            continue
        pulled = dice(0.05, 0.3) * z if dice.coin(0.2) else 0
        face = join([box(wide, tall * 0.85, z * 0.9), knob.moved(0, tall * 0.45, z * 0.45 + 0.02)])
        parts.append(face.moved(0, base, 0.05 * z + jut + pulled))
    over = dice(1, 1.25)
    parts.append(box(x * over, dice(0.03, 0.06), z * over).moved(y=y))
    lift = 0.0
    if dice.coin(0.7):
        lift = dice(0.08, 0.4)
        parts.append(four_legs(dice, x, lift, z).moved(y=-lift))
    if dice.coin(0.2):
        parts.append(box(x, 0.2, 0.03).moved(0, y, -z / 2))
    return join(parts).moved(y=lift)
