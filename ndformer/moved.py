"""Old names of modules and of what is in them, which can be imported for one more version, with a warning."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# old name: new name, both without "ndformer."
MODULES: dict[str, str] = {
    "encodings.absolute": "encodings.sincos",
    "encodings.buckets": "encodings.relative",
    "encodings.cayley": "encodings.string_rope",
    "encodings.compact": "encodings.pape_compact",
    "encodings.contextual": "encodings.relative",
    "encodings.convolutional": "encodings.cpe",
    "encodings.coordinates": "encodings.learnable_mlp",
    "encodings.directional": "encodings.directional_rpe",
    "encodings.directions": "encodings.rotary_directions",
    "encodings.distance": "encodings.alibi",
    "encodings.folded": "encodings.weight_cache",
    "encodings.fourier": "encodings.learnable_fourier",
    "encodings.generators": "encodings.skew_matrices",
    "encodings.landmarks": "encodings.pape_directional",
    "encodings.lie": "encodings.liere",
    "encodings.mixer": "encodings.pe_mixer",
    "encodings.none": "encodings.nope",
    "encodings.objects": "encodings.object_sincos",
    "encodings.parabolic": "encodings.pape",
    "encodings.polar": "encodings.pope",
    "encodings.radial": "encodings.radial_bias",
    "encodings.radius": "encodings.initial_radius",
    "encodings.table": "encodings.learnable_absolute",
    "framework.answers.boxes3d": "modalities.driving.answer",
    "framework.answers.cells": "framework.answers.pixels",
    "framework.answers.points": "framework.answers.pixels",
    "framework.archive": "framework.system.archive",
    "framework.atomic": "framework.system.atomic",
    "framework.autocast": "framework.system.autocast",
    "framework.backbones.factorised": "framework.backbones.factorized",
    "framework.backbones.unitr": "modalities.driving.models.unitr",
    "framework.backbones.unitr.layers": "modalities.driving.models.unitr.layers",
    "framework.backbones.unitr.network": "modalities.driving.models.unitr.network",
    "framework.backbones.unitr.places": "modalities.driving.models.unitr.places",
    "framework.backbones.unitr.sets": "modalities.driving.models.unitr.sets",
    "framework.bev_grid": "modalities.driving.models.bev_grid",
    "framework.bias.circles": "framework.bias.base",
    "framework.bias.riding": "framework.bias.channels",
    "framework.compat": "framework.system.opencv",
    "framework.composed": "framework.encoding.composed",
    "framework.contract": "contract",
    "framework.contract.arithmetic": "contract.arithmetic",
    "framework.contract.building": "contract.building",
    "framework.contract.circles": "contract.circles",
    "framework.contract.forms": "contract.forms",
    "framework.contract.parts": "contract.parts",
    "framework.contract.places": "contract.places",
    "framework.contract.promise": "contract.promise",
    "framework.contract.trial": "contract.trial",
    "framework.contract.values": "contract.values",
    "framework.coverage": "framework.encoding.coverage",
    "framework.data.length_batches": "framework.data.token_batches",
    "framework.data.shards.pack": "cli.shards",
    "framework.devices": "framework.system.devices",
    "framework.engine.config.kept": "framework.engine.config.saved",
    "framework.engine.fitting": "framework.engine.calibration",
    "framework.engine.memory": "cli.memory",
    "framework.engine.programs": "cli",
    "framework.engine.programs.attention": "cli.attention",
    "framework.engine.programs.check": "cli.check",
    "framework.engine.programs.cli": "cli.program",
    "framework.engine.programs.coverage": "cli.coverage",
    "framework.engine.programs.files": "framework.engine.inputs",
    "framework.engine.programs.modelcard": "cli.modelcard",
    "framework.engine.programs.naming": "cli.naming",
    "framework.engine.programs.output": "cli.output",
    "framework.engine.programs.parsing": "cli.parsing",
    "framework.engine.programs.photo": "cli.photo",
    "framework.engine.programs.rendered": "cli.rendered",
    "framework.engine.programs.show_dir": "cli.show_dir",
    "framework.engine.programs.shown": "cli.rendered",
    "framework.engine.studies": "lab",
    "framework.engine.studies.compare": "lab.compare",
    "framework.engine.studies.compare_table": "lab.compare_table",
    "framework.engine.studies.conduct": "lab.runner",
    "framework.engine.studies.experiment": "lab.experiment",
    "framework.engine.studies.explore": "lab.explore",
    "framework.engine.studies.extrapolate": "lab.extrapolate",
    "framework.engine.studies.extrapolate_table": "lab.extrapolate_table",
    "framework.engine.studies.friedman": "lab.friedman",
    "framework.engine.studies.grid": "lab.grid",
    "framework.engine.studies.index": "lab.pages",
    "framework.engine.studies.interval": "lab.interval",
    "framework.engine.studies.joined": "lab.rank",
    "framework.engine.studies.joined_table": "lab.rank_table",
    "framework.engine.studies.markdown": "lab.markdown",
    "framework.engine.studies.pages": "lab.pages",
    "framework.engine.studies.probe_positions": "lab.probe_positions",
    "framework.engine.studies.report": "lab.report",
    "framework.engine.studies.told": "lab.run_folder",
    "framework.engine.studies.train_all": "lab.jobs",
    "framework.engine.studies.verdicts": "lab.verdicts",
    "framework.engine.trained": "framework.engine.load_model",
    "framework.engine.training.apart": "framework.engine.training.leakage",
    "framework.engine.training.first_look": "framework.engine.training.first_batch",
    "framework.evaluation.solve_rate": "framework.evaluation.mean_iou",
    "framework.field": "modalities.driving.models.bev_grid",
    "framework.foreign.bare": "framework.foreign.arrays",
    "framework.foreign.packed": "framework.foreign.decompress",
    "framework.foreign.pictures": "framework.foreign.images",
    "framework.foreign.row_width": "framework.foreign.arrays",
    "framework.foreign.tar": "framework.foreign.decompress",
    "framework.foreign.weight_formats": "framework.foreign.weights",
    "framework.guest": "framework.system.host_state",
    "framework.heads.centre_point": "modalities.driving.models.center_point",
    "framework.heads.trans_fusion": "modalities.driving.models.trans_fusion",
    "framework.heap": "framework.system.malloc",
    "framework.hooks": "framework.system.hooks",
    "framework.importers": "integrations.importers",
    "framework.importers.lookhere": "integrations.importers.lookhere",
    "framework.importers.pape": "integrations.importers.pape",
    "framework.importers.pointcept": "integrations.importers.pointcept",
    "framework.importers.state_dict": "framework.importer",
    "framework.importers.taken": "framework.importer",
    "framework.importers.vit": "integrations.importers.vit",
    "framework.jit": "framework.system.jit",
    "framework.kernels.reach": "framework.kernels.block_bounds",
    "framework.kernels.told": "framework.kernels.choose",
    "framework.look": "framework.attention_maps",
    "framework.losses.boxes3d": "modalities.driving.models.boxes3d",
    "framework.losses.lovasz": "framework.losses.labels",
    "framework.losses.matching": "modalities.driving.models.matching",
    "framework.losses.objects3d": "modalities.driving.models.objects3d",
    "framework.necks.birds_eye": "modalities.driving.models.birds_eye",
    "framework.necks.maps": "framework.necks.pyramid",
    "framework.pictures.attention": "cli.attention_picture",
    "framework.pictures.encodings": "cli.encoding_pictures",
    "framework.pictures.explorer": "lab.explorer",
    "framework.pictures.explorer.view": "framework.pictures.view",
    "framework.pictures.looks": "cli.attention_picture",
    "framework.pictures.page": "lab.html",
    "framework.pictures.ranks": "lab.figures",
    "framework.pictures.scenes": "framework.pictures.canvas",
    "framework.pictures.solids": "modalities.driving.pictures.solids",
    "framework.pictures.studies": "lab.figures",
    "framework.pipes": "framework.system.pipes",
    "framework.probe": "lab.probe",
    "framework.processes": "framework.system.processes",
    "framework.ranges": "framework.registry.ranges",
    "framework.registry.base": "framework.registry",
    "framework.scaling": "framework.encoding.scaling",
    "framework.signature": "framework.registry.signature",
    "framework.spacing": "framework.encoding.spacing",
    "framework.system.exporting": "framework.system.autocast",
    "lab.explorer.layers": "lab.explorer.forms",
    "modalities.arc.generators.recolour": "modalities.arc.generators.recolor",
    "modalities.events.pictures.scene": "modalities.events.pictures.overlay",
    "modalities.image.formats.held": "modalities.image.formats.in_memory",
    "modalities.pointcloud.formats.held": "modalities.pointcloud.formats.files",
    "modalities.pointcloud.pictures.labelled": "modalities.pointcloud.pictures.labeled",
    "modalities.pointcloud.pictures.scene": "modalities.pointcloud.pictures.overlay",
    "modalities.pointcloud.pictures.tokens": "modalities.pointcloud.pictures.clouds",
    "modalities.pointcloud.stand_ins.shapes.things": "modalities.pointcloud.stand_ins.shapes.kinds",
    "modalities.video.formats.writing": "modalities.video.stand_ins.ucf101",
}


class OldNames(MetaPathFinder, Loader):
    """Import a moved module under its old name: the same module object, and a DeprecationWarning."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.removeprefix("ndformer.") in MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = f"ndformer.{MODULES[spec.name.removeprefix('ndformer.')]}"
        warnings.warn(f"{spec.name} has moved, import {new} instead", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(new)
        self._specs[new] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._specs[module.__name__]  # importlib has put that of the old name there

    _specs: dict[str, ModuleSpec | None] = {}


def old_names(module: str, names: dict[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for names that were renamed: `__getattr__ = old_names(__name__, {"old":
    "new"})`."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        warnings.warn(f"{module}.{name} is called {names[name]} now", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], names[name])

    return get


def install() -> None:
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldNames())  # before a moved package finds its modules under its old name
