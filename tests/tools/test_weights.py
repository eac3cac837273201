"""tools/train.py --weights: fine-tuning a ViT in timm's layout with its own and with other encodings."""

import re

import pytest
import torch

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.pretrained import read
from ndformer.framework.errors import ConfigError, DataError, UnknownNameError
from tests.integrations.importers.given import CLS, HEAD, SIDE, D, N, vit
from tests.integrations.importers.plain import TIMM as TIMM_NAMES
from tests.programs import NO_WORKERS, write_images
from tests.programs import run as start
from tools import convert_checkpoint, print_config, train

TIMM = vit(**CLS, pos_embed=(1, N + 1, D), **HEAD)
TINY = ["--no-report", "--cfg-options", "model.head.classes=2", "model.mix=None"]
SIZE = 4 * SIDE
FRAMED = f"[dict(type='Resize', size=({SIZE}, {SIZE})), dict(type='PackImage')]"
TINY += [*NO_WORKERS, "train_dataloader.batch_size=4"]
TINY += [f"{split}_dataloader.dataset.transforms={FRAMED}" for split in ("train", "val", "test")]


@pytest.fixture
def home(tmp_path, monkeypatch):
    write_images(tmp_path / "mine", splits=("train", "val", "test"), size=(SIZE, SIZE))
    torch.save(TIMM, tmp_path / "vit.pth")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(home, capsys):
    """Return a function that trains and returns the best weights, the config and the output."""

    def run(name, *arguments, config="imagefolder", options=(), epochs=1):
        words = [*arguments, *TINY, f"train_cfg.max_epochs={epochs}", *options]
        start(train.main, config, "--data-root", "mine", "--work-dir", name, *words)
        weights = checkpoint.load(home / name / "best.pth")["model"]
        return weights, load(home / name / "config.json"), capsys.readouterr().out

    return run


NAMED = "timm(head_dim=16):vit.pth"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["PaPE(m=4)", "AxialRoPE", None])
def test_one_command_fine_tunes_weights_of_timm_with_another_encoding(encoding, run):
    chosen = ["--encoding", encoding] if encoding else []
    weights, cfg, said = run("out", "--weights", NAMED, *chosen, options=["optimizer.lr=1e-9"])
    found = cfg.model.backbone
    assert (found.dim, found.depth, found.heads, found.get("initial_norm", False)) == (D, 2, 2, False)
    assert (found.norm_eps, cfg.model.modalities.image.patch) == (1e-6, 4)
    torch.testing.assert_close(weights["backbone.blocks.1.mlp.2.weight"], TIMM["blocks.1.mlp.fc2.weight"])
    torch.testing.assert_close(weights["modalities.image.project.weight"], TIMM["patch_embed.proj.weight"])
    kind = (encoding or "LearnableAbsolute").partition("(")[0]
    assert found.encoding.type == kind
    new = {"PaPE": "PaPE, head.linear", "AxialRoPE": "head.linear", "LearnableAbsolute": "head.linear"}[kind]
    assert f"new: {new}\n" in said
    assert f"left out: {'head.linear' if encoding is None else 'LearnableAbsolute, head.linear'}\n" in said
    assert "assumed, since the file does not contain it: heads of 16 channels, LayerNorm with eps 1e-06" in said
    summary = re.search(r"^weights of .*?^left out: .*?$", said, re.DOTALL | re.MULTILINE)
    assert summary is not None
    assert len(summary[0].splitlines()) == 5
    if encoding is None:
        torch.testing.assert_close(weights["backbone.encoding.table"], TIMM["pos_embed"][0])


def test_the_learned_table_stays_beside_the_new_encoding(run):
    weights, cfg, said = run("out", "--weights", NAMED, "--encoding", "PaPE", "--keep-encoding",
                             options=["optimizer.lr=1e-9"])  # fmt: skip
    assert [part.type for part in cfg.model.backbone.encoding] == ["LearnableAbsolute", "PaPE"]
    torch.testing.assert_close(weights["backbone.encoding.parts.0.table"], TIMM["pos_embed"][0])
    assert "new: PaPE, head.linear\nleft out: head.linear\n" in said


@pytest.mark.slow
def test_a_checkpoint_of_ours_and_a_converted_one_are_begun_with_alike(run, home, capsys):
    """Both give the model their sizes."""
    run("first", "--weights", NAMED)
    convert_checkpoint.main(["timm", "vit.pth", "ours.pth", "--head-dim", "16"])
    capsys.readouterr()
    for path in ("first/best.pth", "ours.pth"):
        weights, cfg, said = run("second", "--weights", path, "--overwrite", config="imagefolder_pape")
        assert (cfg.model.backbone.dim, cfg.model.backbone.encoding.type) == (D, "PaPE")
        assert f"weights of {path} (ndformer): " in said
        assert "left out: LearnableAbsolute" in said
    kept, cfg, said = run("third", "--weights", "second/best.pth", options=["optimizer.lr=1e-9"])
    assert cfg.model.backbone.encoding == dict(type="PaPE", m=50)
    torch.testing.assert_close(kept["backbone.blocks.0.attention.encoding.wa"],
                               weights["backbone.blocks.0.attention.encoding.wa"])  # fmt: skip
    assert "new: nothing\nleft out: nothing\n" in said


def test_only_the_head_and_the_encoding_learn_while_the_backbone_is_frozen(run, home):
    """Frozen in the first of two epochs."""
    arguments = ["--weights", NAMED, "--encoding", "PaPE"]
    options = ["optimizer.weight_decay=0.1", "optimizer.lr=1e-2", "train_cfg.freeze_epochs=1"]
    run("out", *arguments, options=options, epochs=2)
    state, after = (checkpoint.load(home / f"out/{name}.pth")["model"] for name in ("previous", "last"))
    assert torch.equal(state["backbone.blocks.0.attention.qkv.weight"], TIMM["blocks.0.attn.qkv.weight"])
    assert torch.equal(state["modalities.image.project.weight"], TIMM["patch_embed.proj.weight"])
    assert state["head.linear.weight"].abs().max() > 0
    assert state["backbone.blocks.0.attention.encoding.wa"].abs().max() > 0
    moved = [name for name in state if not torch.equal(state[name], after[name])]
    assert "backbone.blocks.0.attention.qkv.weight" in moved


def test_which_importer_is_found_or_a_sentence(home):
    wide = vit(TIMM_NAMES, 64, cls_token=(1, 1, 64), pos_embed=(1, N + 1, 64))
    torch.save(wide, home / "wide.pth")
    assert read("wide.pth").source == "timm"
    torch.save(vit(TIMM_NAMES, 64, cls_token=(1, 1, 64), pos_embed=(1, N, 64)), home / "both.pth")
    with pytest.raises(DataError, match="both.pth has the names and shapes of timm and of rope-vit") as error:
        read("both.pth")
    assert error.value.option == "--weights timm:both.pth"
    assert read("rope-vit:both.pth").source == "rope-vit"
    torch.save(dict(a=torch.zeros(2)), home / "other.pth")
    with pytest.raises(DataError, match="other.pth: expected a checkpoint of ndformer or weights of .*, got neither"):
        read("other.pth")
    with pytest.raises(DataError, match="expected a head width that divides 32 channels, got 64") as error:
        read("timm:vit.pth")
    assert error.value.option == "--weights 'timm(head_dim=N):vit.pth'"
    with pytest.raises(UnknownNameError, match="no importer is named 'tim', did you mean 'timm'"):
        read("tim:vit.pth")
    with pytest.raises(ConfigError, match="timm takes head_dim=NUMBER, got fov=90"):
        read("timm(fov=90):vit.pth")
    with pytest.raises(DataError, match="no checkpoint at none.pth"):
        read("none.pth")
    with pytest.raises(ConfigError, match="expected --weights, got none"):
        print_config.main(["imagefolder", "--keep-encoding"])
    with pytest.raises(DataError, match="expected a config with the modality 'image', got points"):
        print_config.main(["modelnet40_plain_pape", "--weights", NAMED])
