"""Comparisons of encodings: planned runs, their folders, and how they run and resume."""

import contextlib
import json
import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.training import checkpoint, sharded
from ndformer.framework.engine.training.owner import this
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.lab import compare_table, paired
from ndformer.lab.cluster import _checkpoint_time
from ndformer.lab.compare import Run, check_folder, outcome, plan
from ndformer.lab.jobs import Job, run_jobs

CONFIGS = Path(__file__).parents[2] / "configs"
MNIST = CONFIGS / "mnist_pape.py"


def fake_train(encoding: str, folder: Path) -> None:
    """Replace training: ALiBi fails, LookHere takes long."""
    if encoding == "ALiBi":
        print("half way")
        raise DataError("it broke")
    if encoding == "LookHere":
        (folder / "last.pth").write_text("half")
        time.sleep(60)
    (folder / "results.json").write_text(json.dumps(dict(test=dict(accuracy=0.5), minutes=1.0, params=10)))


def jobs_of(runs: list[Run]) -> list[Job]:
    return [replace(run.job, work=partial(fake_train, run.encoding, run.folder)) for run in runs if not run.done]


# Planned runs


def test_a_plan_has_every_encoding_once_before_a_second_seed(tmp_path):
    runs = plan(MNIST, ["Sincos", "PaPE(m=8, context=False)"], [0, 1], tmp_path, [10, 50])
    order = [(run.seed, run.per_class, run.encoding[:4]) for run in runs[:5]]
    assert order == [(0, 10, "Sinc"), (0, 10, "PaPE"), (0, 50, "Sinc"), (0, 50, "PaPE"), (1, 10, "Sinc")]
    assert len({run.folder for run in runs}) == 8
    assert runs[1].folder == tmp_path / "PaPE_m=8_context=False_n10_seed0"
    assert runs[1].cfg.model.backbone.encoding == dict(type="PaPE", m=8, context=False)
    assert (runs[7].cfg.seed, runs[7].cfg.train_dataloader.dataset.per_class) == (1, 50)
    assert "per_class" not in runs[7].cfg.val_dataloader.dataset


def test_points_of_a_grid_are_of_one_row_also_for_the_encoding_of_the_config(tmp_path):
    """Each point was a row of its own, so that test results chose the best."""
    points = [{"model.backbone.encoding.m": m} for m in ("4", "8")]
    runs = plan(MNIST, [None], [0], tmp_path, points=points)
    assert [run.cfg.model.backbone.encoding.m for run in runs] == [4, 8]
    assert len({run.row for run in runs}) == 1


def test_options_the_sample_and_the_data_root_reach_every_run(tmp_path):
    options = ["train_cfg.max_epochs=3"]
    for run in plan(MNIST, ["Sincos", "NoPE"], [0], tmp_path, options=options, sample=True, data_root="my data"):
        assert (run.cfg.train_cfg.max_epochs, run.cfg.model.backbone.dim) == (3, 96)
        assert run.cfg.data_root == "my data"


@pytest.mark.parametrize(
    "config, encodings, more, message",
    [
        ("mnist", ["PaPE", "PaPE2"], {}, "no encoding is called 'PaPE2', did you mean 'PaPE'?"),
        ("mnist", ["PaPE(m=8)", "PaPE( m=8 )"], {}, "names PaPE( m=8 ) twice"),
        ("mnist", ["PaPE"], dict(options=["seed=3"]), "--cfg-options gives seed: that is for --seeds"),
        ("mnist", [None], dict(folds=[1, 2]), "train_dataloader.dataset.fold: nothing reads it"),
        (
            *("ucf101", [None], dict(options=["dataset.fold=1"], folds=[1, 2])),
            "--cfg-options gives dataset.fold: that is for --folds",
        ),
    ],
)
def test_impossible_plans_are_refused(tmp_path, config, encodings, more, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan(CONFIGS / f"{config}_pape.py", encodings, [0], tmp_path, **more)


# Folders of runs


GOOD = dict(test=dict(accuracy=0.9), minutes=1.0, params=10)


def finish(run: Run) -> Run:
    """Make the folder of a finished run."""
    run.folder.mkdir(parents=True)
    saved.write(run.folder, run.cfg.to_dict())
    (run.folder / "results.json").write_text(json.dumps(GOOD))
    return run


@pytest.fixture
def run(tmp_path):
    return finish(plan(MNIST, ["PaPE(m=8)"], [0], tmp_path)[0])


def test_a_run_with_other_settings_is_refused(tmp_path, run):
    assert check_folder(run) == ""
    (other,) = plan(MNIST, ["PaPE(m=8)"], [0], tmp_path, options=["train_cfg.max_epochs=3", "optimizer.lr=1.0"])
    changes = "optimizer.lr was 0.001 and would be 1.0, train_cfg.max_epochs was 30 and would be 3"
    with pytest.raises(DataError, match=f"other settings: {changes}"):
        check_folder(other)
    (run.folder / "config.json").write_text("{")
    damaged = r"damaged: .*config.py cannot be read \(.*is not a config that a run wrote.*\). Remove its folder, .*"
    assert re.fullmatch(damaged, check_folder(run))


def test_a_regression_is_compared_by_the_targets_of_its_data(tmp_path):
    (tmp_path / "targets.csv").write_text("file,split,E (eV),mu (D)\n" + "a.xyz,train,1,2\nb.xyz,test,1,2\n")
    (run,) = plan(CONFIGS / "custom_molecules.py", ["NoPE"], [0], tmp_path, data_root=str(tmp_path))
    assert main_metric(run.cfg.metrics)[0] == "standardized_MAE"
    assert run.cfg.metrics[0].targets == ["E (eV)", "mu (D)"]


def test_numbers_that_a_run_has_measured_are_no_other_settings(tmp_path):
    run = finish(plan(MNIST, ["PaPE(init_radius='spread')"], [0], tmp_path)[0])
    measured = run.cfg.to_dict()
    measured["model"]["backbone"]["encoding"]["init_radius"] = [1.0, 3.0]
    saved.write(run.folder, measured)
    assert check_folder(run) == ""


def test_auto_is_another_setting_where_training_measures_nothing(tmp_path):
    options = ["model.modalities.image.class_at=nowhere"]
    finish(plan(MNIST, ["PaPE(m=8)"], [0], tmp_path, options=options)[0])
    with pytest.raises(DataError, match="class_at was 'nowhere' and would be 'auto'"):
        check_folder(plan(MNIST, ["PaPE(m=8)"], [0], tmp_path)[0])
    options = ["model.backbone.encoding.init_radius=spread"]
    finish(plan(MNIST, ["PaPE(m=4)"], [0], tmp_path)[0])
    with pytest.raises(DataError, match="init_radius was None and would be 'spread'"):
        check_folder(plan(MNIST, ["PaPE(m=4)"], [0], tmp_path, options=options)[0])


def test_code_in_the_folder_of_a_run_is_executed_only_if_trusted(tmp_path, run):
    code = f"open({str(tmp_path / 'executed')!r}, 'w').close()\n" + (run.folder / "config.py").read_text()
    (run.folder / "config.py").write_text(code)
    with pytest.raises(DataError, match="is code, and was changed after its run wrote it") as error:
        check_folder(run)
    assert error.value.option == "--trust-config runs it"
    (run.folder / "config.json").unlink()  # as in folders of earlier versions
    with pytest.raises(DataError, match="is code, and its folder has no config.json"):
        check_folder(run)
    assert not (tmp_path / "executed").exists()
    assert check_folder(run, trusted=True) == ""
    assert (tmp_path / "executed").exists()


BROKEN_RESULTS = {
    "nothing": "",
    "half": '{"test": {"acc',
    "not text": b"\xff\xfe\x00",
    "a list": "[]",
    "deep": "[" * 100_000,
    "no test": json.dumps(GOOD | dict(test=None)),
    "a text for a number": json.dumps(GOOD | dict(test=dict(accuracy="0.9"))),
    "another metric": json.dumps(GOOD | dict(test=dict(mAP=0.9))),
    "a metric of no direction": json.dumps(GOOD | dict(quantities=dict(accuracy=dict(better="up")))),
    "no minutes": json.dumps(dict(test=GOOD["test"], params=10)),
    "infinite minutes": json.dumps(GOOD | dict(minutes=float("inf"))),
    "a number of 5000 digits": json.dumps(GOOD).replace("10}", "1" * 5000 + "}"),
}


@pytest.mark.parametrize("name", BROKEN_RESULTS)
def test_damaged_results_are_reported_and_left_out(run, name):
    content = BROKEN_RESULTS[name]
    (run.folder / "results.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    found = outcome(run)
    assert found.results is None
    assert re.fullmatch(r"damaged: .*results.json is not a file that a run writes. Remove its folder, .*", found.failed)
    assert "1 of 1 runs are missing" in compare_table.text("", [], [found], "accuracy", "PaPE")


@pytest.mark.parametrize("text", ["", '"garbage"', '"9:zz"', '"9:ff"', "[]"])
def test_damaged_correct_samples_are_reported_and_left_out(run, text):
    (run.folder / paired.FILE).write_text(text)
    found = outcome(run)
    assert found.results is None
    assert re.fullmatch(r"damaged: .*correct.json is not a file that a run writes. Remove the folder, .*", found.failed)


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_a_test_result_that_is_no_number_fails_its_run_alone(run, value):
    (run.folder / "results.json").write_text(json.dumps(GOOD).replace('"accuracy": 0.9', f'"accuracy": {value}', 1))
    assert outcome(run).failed.startswith("its test accuracy is ")


NAN = float("nan")
HISTORIES = [  # of a checkpoint, and the reason why the run does not count
    *[(None, ""), ([], ""), ([2.0, 1.0], ""), ([2.0, NAN, NAN], "diverged: .* nan from epoch 2 on")],
    *[(history, "damaged: .*last.pth.*") for history in (3, [3], [dict(epoch=1)], [dict(loss="x")], "half")],
]


@pytest.mark.parametrize("history, reason", HISTORIES, ids=str)
def test_runs_with_a_damaged_checkpoint_or_a_loss_that_is_not_finite_do_not_count(run, history, reason):
    if isinstance(history, list):
        history = [dict(epoch=1, loss=loss) if isinstance(loss, float) else loss for loss in history]
    checkpoint.save(run.folder / "last.pth", dict(model={}, history=history))
    if history == "half":
        content = (run.folder / "last.pth").read_bytes()
        (run.folder / "last.pth").write_bytes(content[: len(content) // 2])
    found = outcome(run)
    assert re.fullmatch(reason, found.failed)
    assert (found.results is None) == reason.startswith("damaged")


def test_a_checkpoint_that_several_processes_wrote_is_one_too(run):
    assert not run.begun
    assert _checkpoint_time(run.folder) == 0
    saver, times = sharded.Saver(), [0.0]
    for loss in (1.0, NAN):
        content = dict(model=dict(w=torch.zeros(2)), history=[dict(epoch=1, loss=loss)])
        saver.save_async(run.folder / "last", content, "previous")
        saver.wait_written()
        times.append(_checkpoint_time(run.folder))
    saver.close()
    assert run.begun
    assert run.job.command[-1] == "--resume"
    assert times[0] < times[1] < times[2]
    assert re.fullmatch("diverged: .* nan from epoch 1 on", outcome(run).failed)


# Running them


@pytest.mark.slow
def test_unfinished_runs_are_resumed_and_a_failure_does_not_stop_the_others(tmp_path):
    done, half, bad, new = runs = plan(MNIST, ["Sincos", "NoPE", "ALiBi", "PaPE"], [0], tmp_path)
    finish(done)
    half.folder.mkdir()
    checkpoint.save(half.folder / "last.pth", dict(model={}, history=[]))
    assert half.job.command == ["tools/train.py", *half.arguments, "--work-dir", str(half.folder), "--resume"]
    assert new.job.command == ["tools/train.py", *new.arguments, "--work-dir", str(new.folder)]
    by_folder = {run.folder: run for run in runs}
    ends = [outcome(by_folder[end.job.folder], end.error) for end in run_jobs(jobs_of(runs), 2, 1)]
    failed = {one.run.encoding: one.failed for one in ends}
    assert failed == {"NoPE": "", "ALiBi": "train: it broke", "PaPE": ""}
    assert not (done.folder / "log.txt").exists()
    log = (bad.folder / "log.txt").read_text().splitlines()
    assert log == [shlex.join(bad.job.command), "half way", "train: it broke"]


def test_a_process_gets_the_config_as_it_was_checked(tmp_path):
    (run,) = plan(MNIST, ["PaPE(m=8)"], [3], tmp_path, [10], options=["train_cfg.max_epochs=3"], sample=True)
    work = pickle.loads(pickle.dumps(run.job.work))
    cfg, folder, sample = work.args
    assert (cfg.to_dict(), str(cfg.filename)) == (run.cfg.to_dict(), str(run.cfg.filename))
    assert (folder, sample, work.keywords) == (run.folder, True, dict(with_report=True))


def alive(folder):
    """Return the processes with a folder among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if str(folder).encode() in path.read_bytes():
                found.append(path)
    return found


@pytest.fixture
def heeds_ctrl_c():
    """Handle SIGINT as in the foreground: shells let background processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_the_processes(tmp_path, which):
    runs = plan(MNIST, ["LookHere", "Sincos"], [0], tmp_path)
    ends = run_jobs(jobs_of(runs), 2, 1)
    assert next(ends).job.folder == runs[1].folder
    deadline = time.monotonic() + 60
    while not runs[0].begun and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive(runs[0].folder)
    threading.Timer(0.2, os.kill, (os.getpid(), which)).start()
    with pytest.raises(KeyboardInterrupt):
        next(ends)
    assert not alive(runs[0].folder)
    assert runs[0].begun  # so that it can be resumed
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


CHILD = """
import sys, time
from ndformer.framework.system import processes
processes.end_with_parent()
print("here", flush=True)
time.sleep(60)
"""
PARENT = f"""
import os, sys, time
from ndformer.framework.system import processes
child = processes.start([sys.executable, "-c", {CHILD!r}], dict(os.environ))
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_run_ends_when_the_comparison_is_killed():
    """Issue 44.30: training continued after kill -9 of tools/compare.py."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        lines = {parent.stdout.readline().strip() for _ in range(2)}
        (child,) = map(int, lines - {"here"})
        assert this(child).start
        parent.kill()
    deadline = time.monotonic() + 20
    while not (ended := this(child).start in (0, None)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ended
