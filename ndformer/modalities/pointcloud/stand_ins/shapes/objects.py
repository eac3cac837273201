"""Vehicles, vessels, guitars, stairs and lamps, randomly generated from simple solids. y is up, the front faces z."""

import math

import numpy as np

from ndformer.modalities.pointcloud.stand_ins.shapes.home import Dice, spread
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import (
    Mesh,
    arc,
    ball,
    both,
    box,
    cylinder,
    join,
    lathe,
    prism,
    shell,
    tube,
    vessel,
)


def wing(span: float, root: float, tip: float, sweep: float, thick: float) -> Mesh:
    """Return a wing along x from 0, `root` and `tip` deep along z at its ends; the tip is `sweep` further back."""
    return box(thick, span, root, (0.5, tip / root), (0, -sweep)).turned("z", -0.25)


def airplane(dice: Dice) -> Mesh:
    length, body = dice(1.2, 1.9), dice(0.08, 0.2)
    places = np.array([-0.5, -0.42, -0.15, 0.25, 0.4, 0.47, 0.5]) * length
    radii = body * np.array([0, dice(0.2, 0.45), 1, 1, dice(0.7, 0.95), dice(0.3, 0.6), 0])
    hull = lathe(np.column_stack([radii, places]), 14).turned("x", 0.25)
    span, root = dice(0.5, 1.0), dice(0.2, 0.55)
    sweep, height = dice(-0.05, 0.5), dice(-0.8, 0.8) * body
    tilt = dice(-0.01, 0.03)
    wings = both(wing(span, root, root * dice(0.25, 1), sweep, 0.05).turned("z", tilt))
    place = dice(-0.05, 0.2) * length
    parts = [hull, wings.moved(0, height, place)]
    if dice.coin(0.2):  # a second pair above
        struts = both(cylinder(0.02, 0.3, sides=6).moved(span * 0.6, 0, place - sweep * 0.6))
        parts += [wings.moved(0, height + 0.3, place), struts.moved(y=height)]
    fin, rear = dice(0.2, 0.4), -0.42 * length
    parts.append(box(0.04, fin, fin, (0.7, dice(0.3, 0.8)), (0, -dice(0, 0.2))).moved(0, body * 0.4, rear + fin / 3))
    if dice.coin(0.85):
        small = both(wing(fin * dice(0.8, 1.4), fin * 0.8, fin * dice(0.3, 0.8), dice(0, 0.2), 0.04))
        parts.append(small.moved(0, fin if dice.coin(0.35) else body * 0.3, rear + fin / 4))
    style = dice.pick("wing", "wing", "rear", "nose", "none")
    engine = cylinder(dice(0.05, 0.1), dice(0.2, 0.4), dice(0.7, 1.1), 12).turned("x", 0.25)
    if style == "wing":
        for out in spread(dice.count(1, 2), 0.8) + 0.5:
            parts.append(both(engine.moved(span * out, height - 0.1, place - sweep * out)))
    elif style == "rear":
        parts.append(both(engine.moved(body + 0.06, 0.05, rear + 0.1)))
    elif style == "nose":
        blade = box(0.05, dice(0.25, 0.45), 0.02)
        parts += [blade.turned("z", i / 3).moved(z=length / 2) for i in range(3)]
    if dice.coin(0.3):  # on its wheels
        leg = join([cylinder(0.015, 0.3, sides=6), wheel(0.07, 0.05)]).moved(y=-0.3)
        parts += [both(leg.moved(0.2, 0, place - 0.1)), leg.moved(z=0.4 * length)]
    return join(parts).turned("x", dice(-0.02, 0.02))


def wheel(radius: float, wide: float) -> Mesh:
    """Return a wheel that rolls along z, centered at the origin."""
    return cylinder(radius, wide, sides=16).turned("z", 0.25).moved(wide / 2)


def car(dice: Dice) -> Mesh:
    """Return a body on four or six wheels: saloon, van, pick-up, open racer, lorry."""
    style = dice.pick("saloon", "saloon", "van", "pickup", "open", "lorry")
    x, z = dice(0.55, 0.8), dice(1.2, 2.0)
    low, mid, tall = dice(0.08, 0.2), dice(0.18, 0.35), dice(0.2, 0.45)
    hull = box(x, mid, z, (dice(0.9, 1), dice(0.88, 1)))
    parts = [hull.moved(y=low)]
    roof = low + mid
    if style == "saloon":
        cabin = box(x * 0.94, tall * 0.8, z * dice(0.45, 0.65), (dice(0.7, 0.9), dice(0.5, 0.75)))
        parts.append(cabin.moved(0, roof, -z * dice(0, 0.12)))
    elif style == "van":
        parts.append(box(x * 0.97, tall * dice(0.9, 1.8), z * 0.85, (0.92, 0.9), (0, -0.03)).moved(0, roof, -z * 0.06))
    elif style == "pickup":
        parts.append(box(x * 0.92, tall, z * 0.35, (0.8, 0.7)).moved(0, roof, z * 0.08))
        parts.append(both(box(0.05, 0.12, z * 0.42).moved(x / 2 - 0.04, roof, -z * 0.27)))
    elif style == "open":
        parts += [both(box(x * 0.3, 0.2, 0.12, (0.9, 0.7), (0, -0.05)).moved(x * 0.2, roof - 0.02, -z * 0.1))]
        parts.append(box(x * 0.9, 0.18, 0.03, (0.85, 1), (0, -0.1)).moved(0, roof, z * 0.15))
        if dice.coin():
            parts += [
                box(x, 0.03, 0.15).moved(0, roof + 0.18, -z * 0.45),
                both(box(0.03, 0.18, 0.08).moved(x * 0.3, roof, -z * 0.45)),
            ]
    else:
        parts.append(box(x, tall * 1.2, z * 0.22, (0.95, 0.85)).moved(0, roof, z * 0.36))
        parts.append(box(x * 1.05, tall * dice(1, 2.2), z * 0.66).moved(0, roof, -z * 0.14))
    radius, wide = dice(0.13, 0.24), dice(0.08, 0.16)
    axles = [0.32, -0.32] + ([-0.12] if style == "lorry" and dice.coin() else [])
    parts += [both(wheel(radius, wide).moved(x / 2, low, z * share)) for share in axles]
    if dice.coin(0.6):
        parts.append(both(ball(0.06, 0.06, 0.04, 10).moved(x * 0.35, low + mid * 0.6, z / 2)))
    if dice.coin(0.5):
        parts.append(both(box(0.1, 0.06, 0.03).moved(x / 2 + 0.05, roof, z * 0.15)))
    return join(parts)


def bottle(dice: Dice) -> Mesh:
    """Return a body, a shoulder and a narrow neck with a lip or a cap; round or four-sided, sometimes with a loop."""
    body, tall = dice(0.15, 0.42), dice(0.45, 1.1)
    neck, rise, climb = body * dice(0.2, 0.45), dice(0.15, 0.5), dice(0.06, 0.35)
    waist = dice(0.75, 1.05)
    bend = np.linspace(0, 1, dice.count(2, 6))[1:-1]
    shoulder = [(body + (neck - body) * (1 - math.cos(math.pi * t)) / 2, tall + climb * t) for t in bend]
    top = tall + climb + rise
    outline = [(0, 0), (body * 0.92, 0), (body, 0.05), (body * waist, tall * 0.5), (body, tall), *shoulder]
    outline += [(neck, tall + climb), (neck, top)]
    lip = neck * dice(1.05, 1.6)
    cap = dice(0.05, 0.16)
    outline += [(lip, top), (lip, top + cap), (0, top + cap)]
    parts = [lathe(outline, 4 if dice.coin(0.25) else 20)]
    if dice.coin(0.3):  # a loop at the neck
        height = dice(0.5, 0.9) * (climb + rise)
        loop = arc(height / 2, -0.25, 0.25, 8) + np.array([neck * 0.8, top - height / 2])
        parts.append(tube(np.insert(loop, 2, 0, axis=1), 0.03))
    if dice.coin(0.2):  # a spray head
        parts.append(box(0.28, 0.08, 0.1).moved(0.1, top + cap))
    return join(parts)


def cup(dice: Dice) -> Mesh:
    """Return a cup that is open at the top, mostly with a handle; sometimes on a saucer or a stem."""
    low, high, tall = dice(0.2, 0.4), dice(0.25, 0.45), dice(0.35, 0.95)
    belly = dice(0.95, 1.25)
    rounded = [(low + (high - low) * t, tall * t) for t in (0, 0.25, 0.5, 0.75, 1)]
    outline = [(r * (1 + (belly - 1) * math.sin(math.pi * h / tall)), h) for r, h in rounded]
    parts = [vessel(outline, dice(0.025, 0.05), 6 if dice.coin(0.1) else 20)]
    if dice.coin(0.85):
        depth, size = dice(0.12, 0.3), tall * dice(0.25, 0.4)
        middle = tall * dice(0.45, 0.55)
        side = float(np.interp(middle, [h for _, h in outline], [r for r, _ in outline]))
        if dice.coin(0.7):
            loop = arc(1, -0.25, 0.25, 8) * np.array([depth, size]) + np.array([side * 0.94, middle])
        else:
            loop = np.array([(0, -size), (depth, -size), (depth, size), (0, size)]) + np.array([side * 0.94, middle])
        ear = tube(np.insert(loop, 2, 0, axis=1), dice(0.02, 0.05))
        parts.append(ear.turned("y", dice(0, 1)))
    lift = 0.0
    style = dice.pick("plain", "plain", "saucer", "stem")
    if style == "saucer":
        wide = dice(1.5, 2.2) * low
        parts.append(vessel([(wide * 0.6, -0.06), (wide, 0.03)], 0.03))
        lift = 0.06
    elif style == "stem":
        lift = dice(0.15, 0.6)
        stem = lathe([(0, 0), (low, 0), (low * 0.9, 0.04), (0.05, 0.08), (0.05, lift - 0.03), (low, lift), (0, lift)])
        parts.append(stem.moved(y=-lift))
    return join(parts).moved(y=lift)


def guitar(dice: Dice) -> Mesh:
    """Return an upright guitar: a waisted body or an electric one with horns, a neck, a head with pegs."""
    deep, wide, tall = dice(0.06, 0.22), dice(0.32, 0.48), dice(0.5, 0.7)
    turn = np.linspace(0, 2 * math.pi, 28, endpoint=False)
    style = dice.pick("waisted", "waisted", "horned", "vee")
    if style == "vee":
        outline = np.array(
            [(0, -0.15), (0.75, -1.0), (1.0, -0.75), (0.25, 0.9), (-0.25, 0.9), (-1, -0.75), (-0.75, -1)]
        )
        shape = outline[[0, 1, 2, 3, 4, 5, 6]] * np.array([wide, tall])
    else:
        pinch, upper = dice(0.15, 0.32), dice(0.65, 0.9)
        side = np.cos(turn) * (1 - pinch * np.exp(-(((np.sin(turn) - 0.1) / 0.35) ** 2)))
        side = np.where(np.sin(turn) > 0, side * upper, side)
        rise = np.sin(turn)
        if style == "horned":
            rise = rise + 0.35 * np.exp(-(((np.abs(side) - 0.5) / 0.2) ** 2)) * (rise > 0.4)
        shape = np.column_stack([side * wide, rise * tall])
    parts = [prism(shape, deep)]
    neck, thin = dice(0.7, 1.3), dice(0.06, 0.1)
    front = deep / 2
    parts.append(box(thin * 1.3, neck + tall * 0.6, 0.05, (0.75, 1)).moved(0, tall * 0.3, front))
    high = tall * 0.9 + neck
    parts.append(box(thin * 1.2, 0.24, 0.04, (dice(1.1, 1.7), 1), (0, -0.04)).moved(0, high, front))
    peg = box(0.07, 0.03, 0.03)
    parts += [both(peg.moved(thin * 0.9, high + 0.04 + 0.07 * i, front - 0.02)) for i in range(3)]
    parts.append(box(wide * 0.6, 0.05, 0.05).moved(0, -tall * 0.45, front))
    if dice.coin():
        hole = vessel([(wide * 0.32, 0), (wide * 0.32, 0.02)], 0.05).turned("x", 0.25)
        parts.append(hole.moved(0, tall * 0.12, front))
    if dice.coin(0.4):  # on a stand
        leg = tube([(0, -tall * 0.3, -deep / 2), (0.3, -tall * 1.2, -0.4)], 0.02)
        parts += [both(leg), box(0.5, 0.03, 0.1).moved(0, -tall * 1.05, 0)]
    return join(parts).turned("z", dice(-0.04, 0.04)).turned("x", -dice(0, 0.05))


def stairs(dice: Dice) -> Mesh:
    """Return rising steps: a solid flight, planks between stringers, straight or turning about a post."""
    n, x = dice.count(4, 11), dice(0.4, 1.1)
    rise, run = dice(0.1, 0.2), dice(0.12, 0.28)
    style = dice.pick("solid", "open", "open", "turning")
    if style == "turning":
        full, length = dice(0.4, 1.0), dice(0.5, 0.9)
        tread = box(length, rise * dice(0.15, 0.5), 0.9 * full * 2 * math.pi * length / n * 0.7)
        wedge = tread.moved(length / 2 + 0.05)
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
    """Return a lamp shade around height 0: an open cone or drum, a dome, a globe."""
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
    """Return a lamp: standing, on a vase, on a jointed arm, with several shades, or hanging."""
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
