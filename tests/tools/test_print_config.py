"""tools/print_config.py: the printed config loads again, and differences."""

import pytest

from ndformer.framework.engine.config.load import load
from tests.programs import CONFIGS, refusal
from tools import print_config

CIFAR = str(CONFIGS / "cifar10_pape.py")


def printed(capsys, *arguments):
    print_config.main(arguments)
    return capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.py")), ids=lambda p: p.stem)
def test_what_is_printed_loads_again(path, tmp_path, capsys):
    copy = tmp_path / "copy.py"
    copy.write_text(printed(capsys, str(path)))
    assert load(copy).to_dict() == load(path).to_dict()
    assert load(copy, sample=True).to_dict() == load(path, sample=True).to_dict()


def test_arguments_of_all_tools_reach_the_config(tmp_path, capsys):
    text = printed(
        capsys,
        *(CIFAR, "--sample", "--encoding", "PaPE(m=8)", "--data-root", "[my] data"),
        *("--cfg-options", "seed=3", "--cfg-options", "ema.decay=0.9", "train_cfg.max_epochs=2"),
    )
    copy = tmp_path / "copy.py"
    copy.write_text(text)
    cfg = load(copy)
    assert cfg.model.backbone.encoding == dict(type="PaPE", m=8)
    assert cfg.data_root == "[my] data"
    assert (cfg.seed, cfg.ema.decay, cfg.train_cfg.max_epochs) == (3, 0.9, 2)
    assert cfg.model.backbone.dim < load(CIFAR).model.backbone.dim


def test_the_text_fits_a_screen(capsys):
    assert max(map(len, printed(capsys, str(CONFIGS / "imagenet1k_pape.py")).splitlines())) <= 120


def test_differences_are_what_a_config_changes_against_another(capsys):
    assert printed(capsys, CIFAR, "--diff", CIFAR) == "no difference\n"
    assert printed(capsys, CIFAR, "--encoding", "Sincos", "--diff", CIFAR).splitlines() == [
        f"--- {CIFAR}",
        f"+++ {CIFAR}",
        "- model.backbone.encoding.type = 'PaPE'",
        "+ model.backbone.encoding.type = 'Sincos'",
        "- model.backbone.encoding.m = 50",
    ]
    lists = printed(
        capsys, CIFAR, "--diff", CIFAR, "--cfg-options", "train_dataloader.dataset.transforms=[]", "ema.decay=.9"
    ).splitlines()
    assert "+ train_dataloader.dataset.transforms = []" in lists
    assert "- train_dataloader.dataset.transforms.1.type = 'Flip'" in lists
    assert "- ema = None" in lists
    assert "+ ema.decay = 0.9" in lists


def test_the_difference_of_the_sample_is_what_it_overrides(capsys):
    lines = printed(capsys, CIFAR, "--sample", "--diff", CIFAR).splitlines()
    assert "- model.backbone.dim = 384" in lines
    assert not any(line[2:].startswith("sample") for line in lines[2:])


def test_keys_lists_them_without_a_config(capsys):
    with pytest.raises(SystemExit) as end:
        print_config.main(["--keys"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert "train_cfg.clip_grad" in out
    assert "the largest norm of the gradient" in out


def test_a_config_to_compare_with_that_does_not_exist_is_one_sentence():
    sentence = refusal(print_config.main, CIFAR, "--diff", "nowhere/x.py")
    assert "nowhere/x.py does not exist, nor does its folder" in sentence
