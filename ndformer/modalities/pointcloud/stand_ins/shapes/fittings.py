"""Stairs and lamps, put together at random from simple solids. y is up, the front looks along z."""

from __future__ import annotations

import math

import numpy as np

from ndformer.modalities.pointcloud.stand_ins.shapes.home import Dice
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import (
    Mesh,
    arc,
    ball,
    both,
    box,
    cylinder,
    join,
    lathe,
    shell,
    tube,
)


def stairs(dice: Dice) -> Mesh:
    """Rising steps: a solid flight, planks between stringers, straight or turning about a post."""
    n, x = dice.count(4, 11), dice(0.4, 1.1)
    rise, run = dice(0.1, 0.2), dice(0.12, 0.28)
    style = dice.pick("solid", "open", "open", "turning")
    if style == "turning":
        full, reach = dice(0.4, 1.0), dice(0.5, 0.9)
        tread = box(reach, rise * dice(0.15, 0.5), 0.9 * full * 2 * math.pi * reach / n * 0.7)
        wedge = tread.moved(reach / 2 + 0.05)
        parts = [wedge.moved(y=rise * (i + 0.7)).turned("y", full * i / n) for i in range(n)]
        parts.append(cylinder(dice(0.05, 0.12), rise * (n + dice(0.5, 4))))
        return join(parts)
    if style == "solid":
        parts = [box(x, rise * (i + 1), run).moved(z=-run * i) for i in range(n)]
    else:
        plank, slope = rise * dice(0.2, 0.45), [(0, 0, run / 2), (0, rise * n, -run * (n - 0.5))]
        parts = [box(x, plank, run * dice(0.8, 1.1)).moved(y=rise * (i + 1) - plank, z=-run * i) for i in range(n)]
        parts.append(both(tube(slope, 0.06, sides=4).moved(x / 2)) if dice.coin() else tube(slope, 0.08, sides=4))
    if dice.coin():
        tall = dice(0.3, 0.7)
        rail = tube([(0, rise + tall, 0), (0, rise * n + tall, -run * (n - 1))], 0.03)
        posts = [tube([(0, rise * (i + 1), -run * i), (0, rise * (i + 1) + tall, -run * i)], 0.02, 6) for i in range(n)]
        side = join([rail, *posts]).moved(x / 2 - 0.04)
        parts.append(both(side) if dice.coin() else side)
    if dice.coin(0.3):  # a landing
        deep = dice(0.3, 0.7)
        high = rise * n
        slab = box(x, high if style == "solid" else 0.06, deep)
        parts.append(slab.moved(0, 0 if style == "solid" else high - 0.06, -run * (n - 0.5) - deep / 2))
    return join(parts)


def shade(dice: Dice, radius: float) -> Mesh:
    """A lamp's, about a height of 0: an open cone or drum, a dome, a globe."""
    style = dice.pick("cone", "cone", "drum", "dome", "globe")
    tall = radius * dice(0.8, 1.6)
    if style == "globe":
        return ball(radius * 0.8, radius * 0.8, radius * 0.8)
    if style == "dome":
        outline = arc(radius, 0, 0.23, 6) * np.array([1, dice(0.6, 1)])
        return shell(outline, 0.03)
    narrow = dice(0.3, 0.65) if style == "cone" else 1
    return shell([(radius, -tall / 2), (radius * narrow, tall / 2)], 0.02)


def lamp(dice: Dice) -> Mesh:
    """Standing, on a vase, on a jointed arm, with several shades, or hanging."""
    style = dice.pick("pole", "vase", "arm", "several", "hanging")
    radius = dice(0.18, 0.4)
    if style == "vase":
        tall = dice(0.4, 0.8)
        heights = np.linspace(0, tall, 7)
        radii = dice(0.08, 0.16) * (1 + dice(0.2, 0.7) * np.sin(heights / tall * dice(3, 9) + dice(0, 6)))
        body = lathe([(0, 0), *zip(radii, heights), (0, tall)])
        return join([body, cylinder(0.02, tall + 0.3), shade(dice, radius).moved(y=tall + 0.25)])
    tall, base = dice(0.7, 1.6), dice(0.15, 0.35)
    disc = cylinder(base, dice(0.03, 0.1), dice(0.5, 1))
    if dice.coin(0.25):
        disc = join(
            [tube([(0, 0.3, 0), (base, 0, 0)], 0.025).turned("y", i / 3) for i in range(3)] + [disc.scaled(0.3, 1, 0.3)]
        )
    pole = cylinder(dice(0.015, 0.04), tall)
    if style == "pole":
        return join([disc, pole, shade(dice, radius).moved(y=tall)])
    if style == "arm":
        out, down = dice(0.3, 0.7), dice(0.5, 1) * tall
        path = [(0, 0, 0), (-out * dice(0, 0.6), down, 0), (out, tall, 0)]
        if dice.coin():
            path = [(0, 0, 0), (0, down, 0), *((out / 2 - x, down + y, 0) for x, y in arc(out / 2, 0, 0.5, 6)[1:])]
        tip = path[-1]
        return join([disc, tube(path, 0.025), shade(dice, radius * 0.7).turned("z", dice(0, 0.1)).moved(*tip)])
    if style == "several":
        n, out = dice.count(2, 5), dice(0.25, 0.5)
        branch = [
            tube([(0, tall, 0), (out, tall + dice(-0.1, 0.2), 0)], 0.02),
            shade(dice, radius * 0.5).moved(out, tall + 0.1),
        ]
        return join([disc, pole, *(join(branch).turned("y", i / n) for i in range(n))])
    rose = cylinder(base * 0.6, 0.05).moved(y=tall - 0.05)
    return join([rose, pole.scaled(0.6, 1, 0.6), shade(dice, radius).moved(y=dice(0, 0.2))])
