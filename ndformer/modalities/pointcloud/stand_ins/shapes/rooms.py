"""Fixtures of rooms, randomly generated. In metres, y is up, the front faces z.

Objects on a wall are at the height at which they hang.
"""

import math

import numpy as np

from ndformer.modalities.pointcloud.stand_ins.shapes.home import Dice, four_legs, row, spread
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import Mesh, both, box, cylinder, join, prism, shell, vessel


def cabinet(dice: Dice) -> Mesh:
    """Return a closed cabinet: doors with handles, on a plinth."""
    x, y, z = dice(0.6, 1.5), dice(0.7, 1.3), dice(0.35, 0.6)
    doors = dice.count(1, 4)
    wide = x / doors
    door = box(wide * 0.92, y * 0.86, 0.04)
    handle = box(0.03, dice(0.08, 0.2), 0.05).moved(wide * 0.36, y * dice(0.4, 0.6), 0.04)
    return join([box(x, y, z), row(join([door.moved(y=0.08), handle]), spread(doors, x)).moved(z=z / 2 + 0.02)])


def bookshelf(dice: Dice) -> Mesh:
    """Return boards between two sides, with books of different sizes on them."""
    x, y, z = dice(0.6, 1.4), dice(1.2, 2.1), dice(0.25, 0.35)
    boards, wall = dice.count(3, 6), 0.03
    parts = [both(box(wall, y, z).moved(x / 2)), box(x, y, wall).moved(z=-z / 2)]
    parts += [box(x, wall, z).moved(y=y * i / boards) for i in range(boards + 1)]
    room = y / boards - wall
    for i in range(boards):
        left = -x / 2 + 0.05
        while left < x / 2 - 0.1:
            thick = dice(0.04, 0.12)
            if dice.coin(0.85):
                book = box(thick * 0.9, room * dice(0.55, 0.9), z * dice(0.6, 0.85))
                parts.append(book.moved(left + thick / 2, y * i / boards + wall, 0))
            left += thick
    return join(parts)


def desk(dice: Dice) -> Mesh:
    """Return a desk with drawers at one side, often with a screen on it."""
    x, y, z = dice(1.1, 1.7), dice(0.68, 0.78), dice(0.55, 0.8)
    parts = [box(x, 0.04, z).moved(y=y)]
    drawer = join([box(0.38, y / 3 * 0.85, z * 0.9), box(0.15, 0.03, 0.04).moved(0, y / 6, z * 0.47)])
    block = join([drawer.moved(y=y * i / 3 + 0.01) for i in range(3)])
    side = x / 2 - 0.22
    parts += [block.moved(side), four_legs(dice, 0.12, y, z * 0.9).moved(-x / 2 + 0.1)]
    if dice.coin(0.7):
        screen = join([box(0.5, 0.32, 0.04).moved(y=0.12), box(0.05, 0.15, 0.05), box(0.22, 0.02, 0.18)])
        parts.append(screen.moved(dice(-0.3, 0.2), y + 0.04, -z * 0.2))
    return join(parts if dice.coin() else [part.mirrored("x") for part in parts])


def counter(dice: Dice) -> Mesh:
    """Return a long worktop that projects over its front, with a strip at the wall."""
    x, y, z = dice(1.2, 2.6), dice(0.86, 0.95), dice(0.58, 0.66)
    fronts = max(2, round(x / 0.5))
    front = box(x / fronts * 0.94, y * 0.8, 0.03)
    parts = [box(x, y, z * 0.85).moved(z=-z * 0.07), box(x, 0.05, z).moved(y=y)]
    parts += [row(front, spread(fronts, x)).moved(y=0.1, z=z * 0.37), box(x, 0.12, 0.03).moved(0, y + 0.05, -z / 2)]
    return join(parts)


def refrigerator(dice: Dice) -> Mesh:
    x, y, z = dice(0.58, 0.85), dice(1.5, 1.9), dice(0.6, 0.75)
    cut = y * dice(0.3, 0.65)
    doors = [box(x, cut - 0.02, 0.06), box(x, y - cut, 0.06).moved(y=cut)]
    handle = box(0.03, 0.35, 0.06).moved(-x * 0.4, 0, 0.05)
    front = join([*doors, handle.moved(y=cut - 0.4), handle.moved(y=cut + 0.05)])
    return join([box(x, y, z), front.moved(z=z / 2 + 0.04)])


def toilet(dice: Dice) -> Mesh:
    wide, long, high = dice(0.34, 0.4), dice(0.42, 0.5), dice(0.38, 0.44)
    bowl = vessel([(0.3, 0), (0.28, 0.2), (0.5, 0.85), (0.5, 1)], 0.12).scaled(wide, high, long)
    tank = box(wide * 1.1, dice(0.32, 0.42), 0.18).moved(0, high, -long / 2 - 0.02)
    parts = [bowl, tank, box(wide * 0.6, high, 0.2).moved(z=-long / 2)]
    if dice.coin(0.4):  # its lid is up
        lid = cylinder(0.5, 0.03, sides=18).scaled(wide, 1, long)
        parts.append(lid.turned("x", 0.22).moved(0, high + 0.2, -long / 3))
    return join(parts)


def basin(dice: Dice) -> Mesh:
    """Return a bowl with a tap."""
    wide = dice(0.42, 0.6)
    bowl = vessel([(0.25, 0), (0.5, 0.8), (0.5, 1)], 0.06).scaled(wide, dice(0.14, 0.2), dice(0.38, 0.46))
    return join([bowl, box(0.04, 0.3, 0.04).moved(z=-0.2), box(0.03, 0.03, 0.16).moved(0, 0.28, -0.13)])


def sink(dice: Dice) -> Mesh:
    """Return a basin on a pedestal."""
    high = dice(0.66, 0.74)
    return join([cylinder(dice(0.08, 0.12), high, dice(0.8, 1.3)), basin(dice).moved(y=high)])


def bathtub(dice: Dice) -> Mesh:
    x, y, z, wall = dice(1.5, 1.8), dice(0.5, 0.6), dice(0.68, 0.8), 0.06
    parts = [both(box(wall, y, z).moved(x / 2)), both(box(x, y, wall).moved(z=z / 2), "z"), box(x, 0.1, z)]
    return join([*parts, box(0.05, 0.08, 0.14).moved(x / 2 - 0.1, y + 0.1, 0)])


def door(dice: Dice) -> Mesh:
    """Return a door leaf in a frame, with a handle."""
    x, y = dice(0.8, 1.0), dice(1.95, 2.1)
    frame = join([both(box(0.08, y, 0.1).moved(x / 2)), box(x, 0.08, 0.1).moved(y=y)])
    panels = [box(x * 0.7, y * 0.35, 0.03).moved(y=y * share) for share in (0.1, 0.55)[: dice.count(0, 2)]]
    knob = box(0.12, 0.03, 0.07).moved(x * 0.36, y * 0.48, 0.05)
    return join([frame, box(x, y, 0.04), knob, *(panel.moved(z=0.03) for panel in panels)])


def window(dice: Dice) -> Mesh:
    """Return panes between bars, above a sill."""
    x, y, low = dice(0.8, 1.8), dice(0.9, 1.3), dice(0.8, 1.1)
    bars = join([both(box(0.07, y, 0.08).moved(x / 2)), box(x, 0.07, 0.08), box(x, 0.07, 0.08).moved(y=y)])
    cross = [box(0.05, y, 0.06).moved(x * (i / n - 0.5)) for n in [dice.count(2, 3)] for i in range(1, n)]
    pane = box(x, y, 0.02).moved(z=-0.05)
    return join([bars, pane, box(x * 1.15, 0.04, 0.2).moved(y=-0.04, z=0.06), *cross]).moved(y=low)


def picture(dice: Dice) -> Mesh:
    x, y = dice(0.3, 1.0), dice(0.3, 0.8)
    rim = join([both(box(0.04, y, 0.05).moved(x / 2)), box(x, 0.04, 0.05), box(x, 0.04, 0.05).moved(y=y)])
    return join([rim, box(x, y, 0.02)]).moved(y=dice(1.2, 1.5))


def drape(dice: Dice, x: float, y: float, folds: float, deep: float) -> Mesh:
    """Return a folded sheet that stands on y = 0."""
    along = np.linspace(-0.5, 0.5, 8 * max(2, round(folds)) + 1)
    wave = deep * np.sin(2 * math.pi * folds * along + dice(0, 6))
    strips = []
    for a, b, za, zb in zip(along, along[1:], wave, wave[1:]):
        outline = [(a * x, za), (b * x, zb), (b * x, zb + 0.015), (a * x, za + 0.015)]
        strips.append(prism(outline, y).turned("x", -0.25))
    return join(strips).moved(y=y / 2)


def curtain(dice: Dice) -> Mesh:
    """Return a curtain on a rod, down to near the floor, in deep folds."""
    x, y = dice(0.5, 1.1), dice(1.7, 2.2)
    cloth = drape(dice, x, y, dice(4, 8) * x, dice(0.04, 0.07))
    return join([cloth, box(x * 1.1, 0.04, 0.04).moved(y=y)]).moved(y=dice(0.02, 0.3))


def shower_curtain(dice: Dice) -> Mesh:
    """Return a curtain on its own rod, away from the walls, in shallow folds."""
    x, y = dice(1.0, 1.6), dice(1.5, 1.8)
    cloth = drape(dice, x, y, dice(2, 4) * x, dice(0.02, 0.04))
    hoops = shell([(0.03, -0.01), (0.03, 0.01)], 0.01, 6)
    rod = box(x, 0.025, 0.025).moved(y=y + 0.06)
    return join([cloth, row(hoops, spread(8, x)).moved(y=y + 0.03), rod]).moved(y=0.3)
