"""Every frame that is asked for is that frame, by each backend, in all containers; else there is a sentence."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.video.formats import backends, files, process
from ndformer.modalities.video.formats.files import Backend, VideoFile
from tests.modalities.video.conftest import LENGTH, numbers
from tests.soak.fuzz_video import attempt, fuzz, write_originals

NAMES = ["xvid.avi", "xvid_b.avi", "h264.mp4", "hevc.mp4", "mpeg2.mpg", "mjpeg.mov", "ffv1.mkv", "vp9.webm"]
BACKENDS: list[Backend] = ["decord", "pyav"]
WANTED = ([0, 1, 10, 11, 20, 21, 30, 31, 40, 41], [3, 25, 26, 58, 59], [37], list(range(60)))


@pytest.fixture(autouse=True)
def _needs(request):
    pytest.importorskip("av")
    if "decord" in str(getattr(request.node, "callspec", None) and request.node.callspec.params.values()):
        pytest.importorskip("decord")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_frames_are_the_requested_ones(clips, name, backend):
    for wanted in WANTED:
        frames, found = VideoFile(clips[name], backend).frames(wanted)
        assert found == wanted
        assert numbers(frames) == wanted
        assert frames.shape == (len(wanted), 48, 64, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_frames_after_the_end_are_left_out(clips, backend):
    frames, found = VideoFile(clips["xvid_b.avi"], backend).frames([57, LENGTH - 1, LENGTH, 500])
    assert found == [57, LENGTH - 1] == numbers(frames)
    with pytest.raises(DataError, match=r"ends before frame 500: replace it"):
        VideoFile(clips["xvid_b.avi"], backend).frames([500])
    with pytest.raises(ValueError, match="numbered from 0"):
        VideoFile(clips["xvid_b.avi"], backend).frames([-1])


@pytest.mark.parametrize("name", NAMES)
def test_far_frames_are_sought_exactly(clips, name, monkeypatch):
    monkeypatch.setattr(backends, "FAR", 1)
    sought = []
    found_by = backends._seek_frames
    monkeypatch.setattr(backends, "_seek_frames", lambda *given: sought.append(found_by(*given)) or sought[-1])
    for wanted in ([20, 21, 40], [59], [13, 14, 15], [58, 70]):
        frames, found = backends.pyav_frames(str(clips[name]), wanted)
        assert numbers(frames) == found == [n for n in wanted if n < 60]
    if name.endswith((".avi", ".mpg")):
        assert all(one is None for one in sought)  # decoded from the start
    elif name != "hevc.mp4":  # where a frame may be missing after a seek
        assert all(one is not None for one in sought)


def test_timestamps_that_do_not_number_frames_are_not_trusted(clips, monkeypatch):
    monkeypatch.setattr(backends, "FAR", 1)
    import av

    path = str(clips["h264.mp4"])
    assert backends._seek_frames(av, path, [30]) is not None
    monkeypatch.setattr(backends, "sorted", lambda values: sorted(values)[1:] + [10**9], raising=False)
    assert backends._seek_frames(av, path, [30]) is None  # its index fails at the first frame
    frames, _ = backends.pyav_frames(path, [30])
    assert numbers(frames) == [30]


def test_both_backends_see_the_same_pixels(clips):
    pytest.importorskip("decord")
    for name in ("xvid.avi", "h264.mp4", "mjpeg.mov"):
        one, other = (VideoFile(clips[name], backend).frames([5, 33])[0].astype(int) for backend in ("decord", "pyav"))
        assert np.abs(one - other).max() <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_facts(clips, backend):
    facts = VideoFile(clips["h264.mp4"], backend).facts()
    assert facts["frames"] == 60
    assert (facts["height"], facts["width"], facts["frames_per_second"]) == (48, 64, 25.0)


def test_rotated_videos_are_upright(clips, tmp_path):
    """A quarter turn in the header of the track: the matrix (0 1, -1 0) in 16.16 numbers."""
    content = bytearray(clips["h264.mp4"].read_bytes())
    at = content.index(b"tkhd") + 4 + 40
    turn = [0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30]
    content[at : at + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in turn)
    path = tmp_path / "sideways.mp4"
    path.write_bytes(content)
    plain = VideoFile(clips["h264.mp4"], "pyav").frames([5])[0][0].astype(int)
    turned = VideoFile(path, "pyav").frames([5])[0][0].astype(int)
    assert turned.shape == (64, 48, 3)
    assert np.abs(turned - np.rot90(plain, -1)).mean() < 1
    assert np.array_equal(turned, VideoFile(path).frames([5])[0][0])
    pytest.importorskip("decord")  # which has rows of 48 pixels in a wrong shape
    with pytest.raises(DataError, match="mixes up the rows"):
        VideoFile(path, "decord").frames([5])


def test_a_backend_that_fails_is_followed_by_the_other(clips, monkeypatch):
    pytest.importorskip("decord")
    requests = []

    class Failing(process.Decoder):
        def ask(self, timeout, **request):
            requests.append(request["backend"])
            if request["backend"] == "decord":
                raise process.DecodingError("frame 7 is damaged")
            return super().ask(timeout, **request)

    child = Failing()
    monkeypatch.setattr(files, "decoder", lambda: child)
    frames, found = VideoFile(clips["xvid.avi"]).frames([3])
    assert found == [3]
    assert requests == ["decord", "pyav"]
    with pytest.raises(DataError, match=r"cannot be read as video \(decord: frame 7 is damaged\)"):
        VideoFile(clips["xvid.avi"], "decord").frames([3])
    child.end()


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"none.avi is missing"):
        VideoFile(tmp_path / "none.avi").frames([0])


@pytest.fixture
def stuck(tmp_path):
    """A decoder whose child never answers, or dies, as its first word says."""

    class Stuck(process.Decoder):
        def _running(self):
            if self.child is None:
                import subprocess
                import sys

                code = "import os, sys, time\nfor line in sys.stdin:\n  os.abort() if 'die' in line else time.sleep(60)"
                self.child = subprocess.Popen(
                    [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
                )
            return self.child

    made = Stuck()
    yield made
    made.end()


def test_a_hang_ends_in_time_and_a_new_process_goes_on(stuck):
    begin = time.monotonic()
    with pytest.raises(process.DecodingError, match=r"gave no answer for 0.2 s"):
        stuck.ask(0.2, path="hang")
    assert time.monotonic() - begin < 5
    first = stuck.child
    assert first is None  # ended
    with pytest.raises(
        process.DecodingError, match=f"ended the process that decodes, with code -{int(signal.SIGABRT)}"
    ):
        stuck.ask(20, path="die")


def test_a_file_that_hung_is_not_waited_for_twice(clips, stuck, monkeypatch):
    monkeypatch.setattr(files, "decoder", lambda: stuck)
    monkeypatch.setattr(files, "_slow", set())
    assert 2 * VideoFile(clips["xvid.avi"]).timeout < 20  # seconds for both backends
    with pytest.raises(DataError, match=r"gave no answer for 0.1 s.* remove it, or raise the dataset's timeout"):
        VideoFile(clips["xvid.avi"], "pyav", timeout=0.1).frames([0])
    begin = time.monotonic()
    with pytest.raises(DataError, match=r"gave no answer before"):
        VideoFile(clips["xvid.avi"], "pyav", timeout=30).frames([0])
    assert time.monotonic() - begin < 1


def test_a_forked_worker_has_a_process_of_its_own(clips):
    VideoFile(clips["xvid.avi"], "pyav").frames([1])
    mine = process.decoder().child
    assert mine is not None
    pid = os.fork()
    if not pid:
        frames, _ = VideoFile(clips["xvid.avi"], "pyav").frames([2])
        own = process.decoder().child
        ok = numbers(frames) == [2] and own is not None and own.pid != mine.pid
        process.decoder().end()
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    frames, _ = VideoFile(clips["xvid.avi"], "pyav").frames([3])
    assert numbers(frames) == [3]
    assert process.decoder().child is mine


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_reader_is_kept_open(clips, backend):
    """The process that decodes has no video open once it has answered."""
    video = VideoFile(clips["xvid_b.avi"], backend)
    video.frames([3, 9])
    video.facts()
    child = process.decoder().child
    assert child is not None
    folder = f"/proc/{child.pid}/fd"
    if not os.path.isdir(folder):
        pytest.skip("only Linux says which files a process has open")
    opened = [os.readlink(f"{folder}/{number}") for number in os.listdir(folder)]
    assert len(opened) > 2
    assert not any(name.endswith(".avi") for name in opened)


def test_no_backend_is_a_sentence(clips, monkeypatch):
    monkeypatch.setattr(files, "installed", lambda: ())
    with pytest.raises(DataError, match=r"videos need decord or PyAV: pip install decord"):
        VideoFile(clips["xvid.avi"]).frames([0])
    monkeypatch.setattr(files, "installed", lambda: ("pyav",))
    with pytest.raises(DataError, match=r"videos need decord: pip"):
        VideoFile(clips["xvid.avi"], "decord").frames([0])


def test_a_relative_path_is_from_where_one_is_now(clips, monkeypatch):
    home = clips["h264.mp4"].parent
    VideoFile(clips["h264.mp4"]).facts()  # the decoder runs
    monkeypatch.chdir(home)
    assert numbers(VideoFile(Path("h264.mp4")).frames([3, 4])[0]) == [3, 4]


def test_damaged_files_give_frames_or_an_error(tmp_path):
    """More of them: tests/soak/fuzz_video.py."""
    assert fuzz(range(12), tmp_path).total() in (12, 24)
    for name, content in write_originals(tmp_path).items():
        (tmp_path / f"cut_{name}").write_bytes(content[:60])
        for backend in files.installed():
            assert attempt(tmp_path / name, backend) == "read"
            assert attempt(tmp_path / f"cut_{name}", backend) == "said"


def test_an_interrupted_answer_is_not_taken_for_the_next_one(clips, monkeypatch):
    video = VideoFile(clips["h264.mp4"], "pyav", 60.0)
    before, _ = video.frames([0, 1])
    with monkeypatch.context() as patch:
        patch.setattr(process.Decoder, "_more", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            video.frames([7, 8])
    np.testing.assert_array_equal(video.frames([0, 1])[0], before)
