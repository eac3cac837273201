"""Stand-in of UCF101: videos of an object that moves in ten ways.

Eight of them are four pairs of each other's reverse: they have the same frames, and differ only in their order.
"""

from pathlib import Path

import numpy as np

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.video.stand_ins.baselines import baselines

HEIGHT, WIDTH, RATE = 120, 160, 25  # pixels; frames per second
MOTIONS = (
    "SlideLeft", "SlideRight", "Rise", "Fall", "CircleClockwise", "CircleCounterclockwise", "Grow", "Shrink",
    "SwingSideways", "Bounce",
)  # fmt: skip
BACKWARDS = ("SlideLeft", "Rise", "CircleCounterclockwise", "Shrink")  # each is the reverse of another one
# Groups of a class, videos of a group, frames of a video. The frames are those between the paper's first (0) and last
# (41), so that the model sees the same frames of a video and its reverse.
GROUPS, CLIPS, FRAMES = 25, 3, 42
TEST_GROUPS = 7  # groups of a test list: 1 to 7 in fold 1, 8 to 14 in fold 2, 15 to 21 in fold 3, as in UCF101


def appearance(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the background (H, W, 3) float32 0 to 255 and the object's two colors (2, 3) for a group of clips."""
    coarse = rng.uniform(50, 90, (5, 6, 3))
    rows, columns = (np.linspace(0, n - 1.001, side) for n, side in zip(coarse.shape, (HEIGHT, WIDTH)))
    y, x = rows.astype(int), columns.astype(int)
    down, right = (rows - y)[:, None, None], (columns - x)[None, :, None]
    corner = lambda dy, dx: coarse[np.ix_(y + dy, x + dx)]
    upper = corner(0, 0) * (1 - right) + corner(0, 1) * right
    lower = corner(1, 0) * (1 - right) + corner(1, 1) * right
    colors = np.stack([rng.uniform(170, 255, 3), rng.uniform(0, 80, 3)])
    return (upper * (1 - down) + lower * down).astype(np.float32), colors.astype(np.float32)


def path(motion: int, times: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, y and radius (T,) each; `times` are seconds from the middle of the film."""
    x, y = (side / 2 + rng.uniform(-12, 12) + 0 * times for side in (WIDTH, HEIGHT))
    radius = rng.uniform(12, 22) + 0 * times
    speed, extent = rng.uniform(0.8, 1.1), rng.uniform(0.8, 1.1)
    name = MOTIONS[motion]
    along = -times if name in BACKWARDS else times
    angle = 2 * np.pi * (rng.uniform(0.5, 0.9) * along + rng.random())
    if name.startswith("Slide"):
        x += 68 * speed * along
    elif name in ("Rise", "Fall"):
        y += 50 * speed * along
    elif name.startswith("Circle"):
        x, y = x + 32 * extent * np.cos(angle), y + 32 * extent * np.sin(angle)
    elif name in ("Grow", "Shrink"):
        radius = 19 + 12 * speed * along
    elif name == "SwingSideways":
        x += 42 * extent * np.sin(angle)
    else:
        y += 32 * extent * np.sin(angle)
    return x, y, radius


def film(motion: int, frames: int, rng: np.random.Generator, colors: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Render a clip (T, H, W, 3) uint8."""
    background, pair = colors
    background = background + rng.normal(0, 6, background.shape).astype(np.float32)
    shaking = rng.normal(0, 3, (2 * HEIGHT, 2 * WIDTH, 1)).astype(np.float32)  # each frame has a piece of this noise
    stripes = rng.uniform(0.15, 0.35) * np.array([np.cos(a := np.pi * rng.random()), np.sin(a)])
    out = np.empty((frames, HEIGHT, WIDTH, 3), np.uint8)
    times = (np.arange(frames) - (frames - 1) / 2) / RATE
    for frame, x, y, radius in zip(out, *path(motion, times, rng)):
        low_x, high_x = max(0, int(x - radius - 1)), max(0, int(x + radius + 2))
        low_y, high_y = max(0, int(y - radius - 1)), max(0, int(y + radius + 2))
        place = slice(low_y, high_y), slice(low_x, high_x)
        top, left = rng.integers(HEIGHT), rng.integers(WIDTH)
        picture = background + shaking[top : top + HEIGHT, left : left + WIDTH]
        piece = picture[place]
        dy, dx = np.arange(low_y, low_y + len(piece))[:, None] - y, np.arange(low_x, low_x + piece.shape[1]) - x
        cover = ((radius - np.hypot(dx, dy)) / 1.5 + 0.5).clip(0, 1)[..., None]
        light = (np.sin(dx * stripes[0] + dy * stripes[1]) > -0.3)[..., None]
        piece += cover * (np.where(light, pair[0], pair[1]) - piece)
        frame[:] = picture.clip(0, 255)
    return out


@stand_in(dict(type="UCF101"), baselines)
def ucf101(folder: Path, seed: int = 0, groups: int = GROUPS, clips: int = CLIPS, frames: int = FRAMES) -> None:
    """Write 750 videos of 160 x 120 pixels, of an object that moves in ten ways."""
    lists = folder / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(MOTIONS, 1)))
    rows: list[tuple[str, int, int]] = []
    for motion, name in enumerate(MOTIONS):
        (folder / "UCF-101" / name).mkdir(parents=True)
        for group in range(1, groups + 1):
            rng = np.random.default_rng((seed, motion, group))
            style = appearance(rng)
            for clip in range(1, clips + 1):
                file = f"{name}/v_{name}_g{group:02d}_c{clip:02d}.avi"
                write_avi(folder / "UCF-101" / file, film(motion, frames, rng, style))
                rows.append((file, motion + 1, group))
    for fold in (1, 2, 3):
        test_groups = range((fold - 1) * TEST_GROUPS + 1, fold * TEST_GROUPS + 1)
        test = "".join(f"{file}\n" for file, _, group in rows if group in test_groups)
        train = "".join(f"{file} {label}\n" for file, label, group in rows if group not in test_groups)
        (lists / f"testlist{fold:02d}.txt").write_text(test)
        (lists / f"trainlist{fold:02d}.txt").write_text(train)


def write_avi(path: Path, frames: np.ndarray) -> None:
    """Write (T, H, W, 3) uint8 as MPEG-4 in AVI with B-frames, as XviD makes it."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=RATE)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt, stream.bit_rate = "yuv420p", 200_000
        stream.codec_context.codec_tag, stream.codec_context.max_b_frames = "XVID", 2
        stream.codec_context.thread_count = 1
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
