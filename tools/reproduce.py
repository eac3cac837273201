#!/usr/bin/env python
"""Measure a table or figure of a paper: our numbers, and a verdict for each of its claims.

    ndformer reproduce --list                 every table and figure, its requirements and status
    ndformer reproduce thesis:table3          one table, on a scale for two CPU cores
    ndformer reproduce toys --seeds 0 1 --jobs 2     a whole paper, two seeds, two cells at once
    ndformer reproduce pape --data sets --keep kept --pages kept
                                              with data sets of your own, as your own page
    ndformer reproduce --pages docs/papers    write pages from kept results, without measuring

The same command again measures only the cells that are missing. Writes into work_dirs/reproduce/PAPER_ITEM_SCALE:
results.json, table.md, picture.png, and a folder for each cell. --keep copies results and picture to a folder, and
--pages writes a page for each paper from such a folder. --onto adds them to the rows and seeds that the folder has,
which are not measured again: long tables can grow on several machines. --list names the folders of data sets that an
experiment reads inside --data; an experiment without its data says where to get it. Where docs/papers has a measured
cell too, the last line says whether its numbers are the same, as they are on the same kind of processor.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from ndformer.cli import program
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.errors import ConfigError, DataError, UnknownNameError
from ndformer.framework.system import atomic
from ndformer.framework.system.lock import locked
from ndformer.lab import pages, runner
from ndformer.lab.experiment import Cell, Experiment, Scale, ScaleName
from ndformer.lab.jobs import LOG, Job, run_jobs
from ndformer.lab.results import RESULTS, Results
from ndformer.studies import PAPERS, find, measure_cell, paper_experiments
from ndformer.studies.contents import NOT_MEASURED, NOTES

QUICK = 1  # minutes of a whole table, which is measured without processes of its own
PAGES = Path(__file__).resolve().parents[1] / "docs" / "papers"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = program.new_parser(__doc__)
    parser.add_argument("name", metavar="PAPER[:ITEM]", nargs="?")
    parser.add_argument("--list", action="store_true", help="list all experiments")
    parser.add_argument("--scale", choices=["small", "paper"], help="(small if there is one)")
    parser.add_argument(
        "--seeds", metavar="N", type=integer_from(0), nargs="+", help="(as many as the experiment has, from 0)"
    )
    parser.add_argument("--rows", metavar="ROW", nargs="+", help="only these rows")
    parser.add_argument(
        "--jobs", metavar="K", type=integer_from(1), default=1, help="cells at once, with one thread each (1)"
    )
    parser.add_argument("--anyway", action="store_true", help="run experiments that need more than two CPU cores, too")
    parser.add_argument(
        "--work-dir", metavar="DIR", type=Path, default=Path("work_dirs/reproduce"), help="(work_dirs/reproduce)"
    )
    parser.add_argument(
        "--data", metavar="DIR", type=Path, default=Path("data"), help="contains a folder for each data set (data)"
    )
    parser.add_argument(
        "--pages", metavar="DIR", type=Path, help="write a page for each paper from the results in this folder"
    )
    parser.add_argument("--keep", metavar="DIR", type=Path, help="copy results and picture there, for --pages")
    parser.add_argument("--onto", metavar="DIR", type=Path, help="as --keep, adding to the rows and seeds there")
    args = parser.parse_args(arguments)
    if not (args.name or args.list or args.pages):
        parser.error("name a PAPER or PAPER:ITEM, or use --list")
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    for option, folder in (("--keep", args.keep), ("--onto", args.onto), ("--pages", args.pages)):
        program.check_folder(option, folder)
    if args.list:
        print(pages.listed(papers(), PAGES))
    elif args.name:
        ran = [attempt(experiment, args) for experiment in named(args.name)]
        if not any(ran):
            raise ConfigError(f"nothing of {args.name} can run here")
    if args.pages:
        write_pages(args.pages)


def named(name: str) -> list[Experiment]:
    if ":" in name:
        return [find(name)]
    if name not in PAPERS:
        raise UnknownNameError(f"no paper '{name}': there are {', '.join(PAPERS)}")
    return paper_experiments(name)


def integer_from(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"takes whole numbers from {minimum}, got {text!r}")
        return int(text)

    return parse


def attempt(experiment: Experiment, args: argparse.Namespace) -> bool:
    """Run an experiment and return True; if a whole paper was requested, skip an experiment that cannot run here."""
    try:
        if ":" not in args.name:
            scale = chosen_scale(experiment, args)
            check(experiment, args)
            runner.cells(experiment, scale, [], args.work_dir, args.data, args.rows)
    except (ConfigError, DataError, UnknownNameError) as error:
        print(f"left out: {error.args[0]}")
        return False
    try:
        run(experiment, args)
    except KeyboardInterrupt:
        print("stopped. The same command resumes", file=sys.stderr)
        raise
    return True


def check(experiment: Experiment, args: argparse.Namespace) -> Scale:
    scale = chosen_scale(experiment, args)
    if scale not in experiment.scales:
        raise ConfigError(f"{experiment.name} has no scale '{scale}', only {', '.join(experiment.scales)}")
    wants = experiment.scales[scale]
    if wants.needs and not args.anyway:
        others = [
            other.name
            for other in paper_experiments(experiment.paper)
            if set(other.shows) & set(experiment.shows) and not all(one.needs for one in other.scales.values())
        ]
        raise ConfigError(
            f"{experiment.name} on the scale '{scale}' needs {wants.needs}: with these, --anyway runs it"
            + (f"; at a scale for two CPU cores: {', '.join(others)}" if others else "")
        )
    runner.check_data(experiment, scale, args.data)
    return wants


def chosen_scale(experiment: Experiment, args: argparse.Namespace) -> ScaleName:
    """Return the requested scale, or the first one."""
    return args.scale or next(iter(experiment.scales))


def run(experiment: Experiment, args: argparse.Namespace) -> None:
    """Measure the cells of an experiment that are not measured yet, and write its results."""
    wants, scale = check(experiment, args), chosen_scale(experiment, args)
    seeds, before = args.seeds or range(wants.seeds), None
    if args.onto:
        before = pages.load_results(experiment, scale, args.onto)
        runner.take_over(experiment, scale, before, args.work_dir)
    folder = args.work_dir / runner.folder_name(experiment, scale)
    runner.check_same_data(experiment, scale, args.work_dir, args.data)
    every = runner.cells(experiment, scale, seeds, args.work_dir, args.data)
    chosen = runner.cells(experiment, scale, seeds, args.work_dir, args.data, args.rows)
    if args.keep:
        coming = [cell for cell in every if cell in chosen or runner.is_measured(experiment, cell)]
        check_nothing_is_lost(pages.load_results(experiment, scale, args.keep), coming, args.keep / folder.name)
    missing = [cell for cell in chosen if not runner.is_measured(experiment, cell)]
    is_quick = wants.minutes is not None and wants.minutes <= QUICK
    print(f"{experiment.name}: {experiment.title}")
    estimate = "" if is_quick else expected(wants, experiment, len(missing))
    print(f"{len(chosen)} cells, {len(chosen) - len(missing)} of them done{estimate}")
    if not is_quick:
        print(f"logs: {folder}/*/{LOG}", flush=True)
    with owned(folder):
        measure = measure_in_process if is_quick else partial(measure_in_workers, args=args)
        measuring = measure(experiment, missing)
        for done, (cell, seconds_left) in enumerate(measuring, len(chosen) - len(missing) + 1):
            left = f"about {seconds_left / 60:.0f} min left"
            print(f"[{done}/{len(chosen)}] {cell.row}, seed {cell.seed}; {left}", flush=True)
        with locked(args.onto or folder):
            if args.onto:  # another machine may have added to it meanwhile
                before = pages.load_results(experiment, scale, args.onto)
                runner.take_over(experiment, scale, before, args.work_dir)
            every_seed = sorted({*seeds, *(before.seeds if before else ())})
            results = runner.collect(experiment, scale, every_seed, args.work_dir)
            text = pages.write(experiment, scale, results, folder)
            for home in filter(None, (args.keep, args.onto)):
                copy = home / folder.name
                copy.mkdir(parents=True, exist_ok=True)
                for name in (RESULTS, "picture.png"):
                    atomic.copy(folder / name, copy / name)
    print(f"\n{text}\n{folder}")
    published = pages.load_results(experiment, scale, PAGES)
    if published is not None:
        print(runner.agreement(results, published, chosen))
    print(f"{60 * runner.minutes(experiment, scale, seeds, args.work_dir):.0f} seconds of processor time in all")


def measure_in_process(experiment: Experiment, cells: Sequence[Cell]) -> Iterator[tuple[Cell, float]]:
    """Measure cells in this process with one thread, as workers do, and yield each with the seconds left."""
    begin, threads = time.monotonic(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for number, cell in enumerate(cells, 1):
            runner.measure(experiment, cell)
            yield cell, (time.monotonic() - begin) / number * (len(cells) - number)
    finally:
        torch.set_num_threads(threads)


def measure_in_workers(
    experiment: Experiment, cells: Sequence[Cell], args: argparse.Namespace
) -> Iterator[tuple[Cell, float]]:
    """Measure cells in processes of their own, `--jobs` at once, and yield each with the seconds left."""
    by_folder = {cell.folder: cell for cell in cells}
    work = partial(measure_cell, experiment.name)
    jobs = [Job(cell.folder, partial(work, cell), command(experiment, cell, args)) for cell in cells]
    with contextlib.closing(run_jobs(jobs, args.jobs, threads=1)) as ends:
        for end in ends:
            cell = by_folder[end.job.folder]
            if not runner.is_measured(experiment, cell):
                raise DataError(f"{experiment.name}, {cell.row}, seed {cell.seed}: {end.error or 'stopped'}")
            yield cell, end.seconds_left


def command(experiment: Experiment, cell: Cell, args: argparse.Namespace) -> list[str]:
    """Return the command line that measures one cell."""
    chosen = ["--scale", cell.scale, "--rows", cell.row, "--seeds", str(cell.seed)]
    return ["tools/reproduce.py", experiment.name, *chosen, "--work-dir", str(args.work_dir), "--data", str(cell.data)]


def expected(wants: Scale, experiment: Experiment, cells: int) -> str:
    if wants.minutes is None or wants.needs:
        return ""
    return f"; the others are about {wants.minutes * cells / (wants.seeds * len(experiment.rows)):.0f} min of a core"


def check_nothing_is_lost(before: Results | None, cells: Sequence[Cell], folder: Path) -> None:
    known = {(cell.row, cell.seed) for cell in cells}
    lost = [(row, seed) for row, seeds in (before.values if before else {}).items() for seed in seeds]
    lost = [cell for cell in lost if cell not in known]
    if lost:
        raise ConfigError(
            f"--keep would delete {len(lost)} results in {folder} that this run does not have, such as {lost[0][0]}, "
            f"seed {lost[0][1]}. Use --onto to merge them"
        )


def papers() -> list[pages.Paper]:
    return [
        pages.Paper(
            name, title, paper_experiments(name), intro, NOT_MEASURED.get(name, {}), NOTES.get(name, "").strip()
        )
        for name, (title, intro) in PAPERS.items()
    ]


def write_pages(folder: Path) -> None:
    if not any(folder.glob(f"*/{RESULTS}")):
        raise DataError(
            f"--pages: expected results in {folder}/*/{RESULTS}, found none. Write them with --keep {folder}"
        )
    # all texts before any file, so that unreadable results leave all pages as they are
    texts = {f"{paper.name}.md": pages.page(paper, folder) for paper in papers()}
    for name, text in [*texts.items(), ("README.md", pages.index(papers(), folder))]:
        atomic.write(folder / name, text)
        print(folder / name)


if __name__ == "__main__":
    program.run(main)
