"""What token sets promise: errors that teach, padding that reaches nothing, rows that can be cut and put back."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ndformer.framework.tokens import Rows, TokenSet, Where

NAN, INF = float("nan"), float("inf")


def listed(t: Tensor | None) -> Any:
    assert t is not None
    return t.tolist()


def bools(*rows: list[int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.bool)


# ---------------------------------------------------------------------------------------------------- errors teach


def ones(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.ones(shape, dtype=dtype)


SHAPED = torch.zeros(2, 3, 2)
KINDS = dict(valid=torch.bool, placed=torch.bool, segment=torch.int64, objects=torch.int64)
REFUSED: list[tuple[Tensor, dict[str, Any], type[Exception], str]] = [
    *((ones((2, 3, 2), dtype), {}, TypeError, r"must be float32 or float64, got torch\.\w+\. 16 bits.*reference")
      for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.int32)),
    *((torch.zeros(shape), {}, ValueError, r"\(rows, tokens, dimensions\), got \(")
      for shape in ((3, 2), (1, 2, 3, 2), (5,))),
    *((SHAPED, {name: ones(shape, dtype)}, ValueError, rf"{name} .* \(rows, tokens\) like positions \(2, 3, 2\), got")
      for name, dtype in KINDS.items() for shape in ((3,), (2, 4), (3, 3), (2, 3, 1))),
    *((SHAPED, {name: ones((1, 3), torch.int64)}, TypeError, rf"{name} .* got torch.int64. Write {name}.bool\(\)")
      for name in ("valid", "placed")),
    # a mask given by mistake would make all padding valid: False is 0, and 0 is a sample
    *((SHAPED, {name: ones((1, 3), dtype)}, TypeError, f"{name} must be an integer tensor of {of} numbers")
      for name, of in (("segment", "sample"), ("objects", "object")) for dtype in (torch.bool, torch.float32)),
]  # fmt: skip


@pytest.mark.parametrize("positions, masks, error, message", REFUSED)
def test_wrong_tensors_are_refused_with_what_was_expected(
    positions: Tensor, masks: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Where(positions, **masks)


def test_a_grid_must_fit_and_stand_alone() -> None:
    positions = torch.zeros(1, 7, 2)
    for grid in [(2, 4), (7,), (2, 3, 1)]:
        with pytest.raises(ValueError, match="grid must have one size per axis"):
            Where(positions, grid=grid)
    with pytest.raises(ValueError, match="rows without padding or packing"):
        Where(positions, valid=torch.ones(1, 7, dtype=torch.bool), grid=(2, 3))
    with pytest.raises(ValueError, match="rows without padding or packing"):
        Where(positions, segment=torch.zeros(1, 7, dtype=torch.int64), grid=(2, 3))
    assert Where(positions, grid=(2, 3)).grid == (2, 3)  # one prefix token
    assert Where(positions, placed=torch.ones(1, 7, dtype=torch.bool), grid=(2, 3)).grid == (2, 3)


@pytest.mark.parametrize("segment", [[0, 0, 0, 0, 1, 1, 1, 1, -1, -1], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]])
def test_grids_of_packed_rows_are_those_of_their_samples(segment: list[int]) -> None:
    """Padding would be taken for class tokens, and samples be cut in the wrong places."""
    positions = torch.zeros(1, 10, 2)
    with pytest.raises(ValueError, match="of packed rows without padding or of padded rows"):
        Where(positions, segment=torch.tensor([segment]), grids=((2, 2), (2, 2)))
    Where(positions, segment=torch.tensor([[0] * 5 + [1] * 5]), grids=((2, 2), (2, 2)))


def test_packed_rows_are_not_shared_by_features() -> None:
    where = Where(torch.zeros(1, 4, 2), segment=torch.tensor([[0, 0, 1, 1]]))
    TokenSet(torch.zeros(1, 4, 8), where)
    with pytest.raises(ValueError, match=r"got \(2, 4, 8\)"):
        TokenSet(torch.zeros(2, 4, 8), where)


@pytest.mark.parametrize("shape", [(2, 4, 8), (3, 3, 8), (3, 8)])
def test_features_must_fit_their_places(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(rows, tokens, channels\) for positions \(2, 3, 2\), got"):
        TokenSet(torch.zeros(shape), Where(torch.zeros(2, 3, 2)))


# ---------------------------------------------------------------------------------------------------- Where


@pytest.mark.parametrize("junk", [NAN, INF, -INF, 1e30])
def test_what_stands_in_padding_and_unplaced_positions_is_set_to_zero(junk: float) -> None:
    valid, placed = bools([1, 1, 0, 0]), bools([1, 0, 1, 0])
    positions = torch.full((1, 4, 2), junk)
    positions[0, 0] = torch.tensor([3.0, 4.0])
    where = Where(positions, valid=valid, placed=placed)
    assert where.positions.tolist() == [[[3, 4], [0, 0], [0, 0], [0, 0]]]
    packed = Where(positions, segment=torch.tensor([[0, -1, -1, -1]]))
    assert packed.positions.tolist() == [[[3, 4], [0, 0], [0, 0], [0, 0]]]


def test_junk_in_padding_neither_widens_the_extent_nor_reaches_a_gradient() -> None:
    positions = torch.tensor([[[0.0], [31.0], [1e20], [-1e20]]]).requires_grad_()
    where = Where(positions, valid=bools([1, 1, 1, 0]), placed=bools([1, 1, 0, 1]))
    assert where.extent == (5,)
    where.positions.square().sum().backward()
    assert positions.grad is not None
    assert positions.grad.flatten().tolist() == [0, 62, 0, 0]


def test_the_callers_positions_stay_as_they_are() -> None:
    positions = torch.ones(1, 3, 1)
    Where(positions, valid=bools([1, 0, 0]))
    assert positions.flatten().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "positions, extent",
    [
        ([[[0.0], [31.0]]], (5,)),
        ([[[0.0], [32.0]]], (5,)),
        ([[[0.0], [33.0]]], (6,)),
        ([[[-400.0], [-399.0]]], (0,)),  # size, not place
        ([[[0.0], [0.25]]], (-2,)),
        ([[[5.0], [5.0]]], (-100,)),
        ([[[0.0], [1.0]], [[100.0], [108.0]]], (3,)),  # the widest row, each about itself
        ([[[0.0, 7.0], [3.0, 7.0]]], (2, -100)),
        ([[[0.0], [NAN]]], (1000,)),
        ([[[0.0], [INF]]], (1000,)),
    ],
)
def test_extent_is_the_size_of_the_widest_row_rounded_up_to_a_power_of_two(positions: Any, extent: Any) -> None:
    assert Where(torch.tensor(positions)).extent == extent


def test_extent_of_packed_rows_is_that_of_the_widest_sample() -> None:
    positions = torch.tensor([[[0.0], [3.0], [1000.0], [1001.0], [5.0]]])
    assert Where(positions, segment=torch.tensor([[0, 0, 1, 1, -1]])).extent == (2,)


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 2), (0, 0, 2)])
@pytest.mark.parametrize("masked", ["plain", "valid", "segment"])
def test_no_tokens_are_tokens_too(shape: tuple[int, ...], masked: str) -> None:
    masks: dict[str, Any] = dict(
        plain={},
        valid={"valid": torch.ones(shape[:2], dtype=torch.bool)},
        segment={"segment": torch.zeros(shape[:2], dtype=torch.int64)},
    )[masked]
    assert Where(torch.zeros(shape), **masks).batch == shape[0]


def test_segments_say_what_is_padding_and_valid_may_add_to_it() -> None:
    segment = torch.tensor([[0, 0, 0, 1, 1, -1]])
    where = Where(torch.zeros(1, 6, 1), segment=segment)
    assert listed(where.valid) == [[True] * 5 + [False]]
    both = Where(torch.zeros(1, 6, 1), valid=bools([1, 0, 1, 1, 1, 1]), segment=segment)
    assert listed(both.valid) == [[True, False, True, True, True, False]]


def test_runs_are_contiguous_stretches_whatever_their_number() -> None:
    segment = torch.tensor([[7, 7, 2, 2, 7, -1], [-1, -1, 5, 5, 5, 5]])
    where = Where(torch.zeros(2, 6, 1), segment=segment)
    assert where.runs().tolist() == [[0, 0, 1, 1, 2, 3], [0, 0, 1, 1, 1, 1]]


def test_cut_holds_each_run_once_alone_and_in_order() -> None:
    """Runs do not continue into the next row, equal numbers apart are separate samples, -1 is nothing."""
    segment = torch.tensor([[3, 3, 3, -1, 3, 3], [3, 0, 0, 0, 0, 0]])
    valid = torch.ones(2, 6, dtype=torch.bool)
    valid[1, 2] = False
    where = Where(torch.arange(12.0).view(2, 6, 1), valid=valid, segment=segment)
    assert where.cut is not None
    found = []
    for rows, place in where.cut:
        mask = rows.valid if place.valid is None else place.valid
        assert rows.full == (place.valid is None) == bool(rows.valid.all())
        for index, present, positions, inside in zip(rows.index, rows.valid, place.positions, mask):
            assert torch.equal(present, inside)
            tokens = index[present]
            assert torch.equal(positions[present, 0], tokens.float())
            found.append(tokens.tolist())
        # at most twice the tokens that are there
        assert rows.index.numel() <= 2 * int(rows.valid.sum()) + rows.index.shape[0]
    assert sorted(found) == [[0, 1, 2], [4, 5], [6], [7, 9, 10, 11]]


def test_packed_samples_share_positions_only_if_the_same_tokens_have_one() -> None:
    where = Where(torch.zeros(1, 4, 1), placed=bools([1, 1, 0, 1]), segment=torch.tensor([[0, 0, 1, 1]]))
    assert where.cut is not None
    ((_, samples),) = where.cut
    assert listed(samples.placed) == [[True, True], [False, True]]


def test_a_row_of_nothing_but_padding_has_no_runs() -> None:
    where = Where(torch.zeros(1, 3, 1), segment=torch.full((1, 3), -1))
    assert where.cut == ()


def test_masks_and_positions_may_be_shared_by_all_rows() -> None:
    positions, valid = torch.ones(1, 3, 2), bools([1, 1, 0], [1, 0, 0])
    where = Where(positions, valid=valid)
    assert where.batch == 2
    assert where.positions[:, :, 0].tolist() == [[1, 1, 0], [1, 0, 0]]
    packed = Where(positions, segment=torch.tensor([[0, 0, 1], [0, 1, 1]]))
    assert packed.positions.shape == (2, 3, 2)
    assert TokenSet(torch.zeros(4, 3, 8), Where(positions)).where.batch == 1


def test_to_changes_the_dtype_of_positions_and_keeps_all_else() -> None:
    where = Where(
        torch.tensor([[[1.0], [2.0], [9.0]]]), placed=bools([1, 0, 1]), segment=torch.tensor([[0, 0, -1]])
    ).to(dtype=torch.float64)
    assert where.positions.dtype == torch.float64
    assert where.positions.flatten().tolist() == [1, 0, 0]
    assert listed(where.placed) == [[True, False, True]]
    assert listed(where.segment) == [[0, 0, -1]]
    assert where.cut is not None
    of_objects = Where(torch.zeros(1, 6, 2), grid=(2, 3), objects=torch.arange(6)[None]).to("cpu")
    assert of_objects.grid == (2, 3)
    assert listed(of_objects.objects) == [[0, 1, 2, 3, 4, 5]]


def test_tokens_in_16_bit_keep_positions_in_32() -> None:
    tokens = TokenSet(torch.zeros(1, 2, 4), Where(torch.tensor([[[512.0], [513.0]]])), torch.tensor([[0, 1]]))
    half = tokens.to(dtype=torch.bfloat16)
    assert half.features.dtype == torch.bfloat16
    assert half.where.positions.dtype == torch.float32
    assert half.where.positions.flatten().tolist() == [512, 513]
    assert listed(half.modality) == [[0, 1]]
    double = tokens.to(dtype=torch.float64)
    assert double.features.dtype == double.where.positions.dtype == torch.float64


def test_where_survives_copies_and_worker_processes() -> None:
    where = Where(torch.arange(5.0).view(1, 5, 1), segment=torch.tensor([[0, 0, 1, 1, -1]]))
    for other in (copy.deepcopy(where), pickle.loads(pickle.dumps(where))):
        assert torch.equal(other.positions, where.positions)
        assert other.extent == where.extent
        assert len(other.cut) == len(where.cut)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------- Rows


def borrowed() -> Rows:
    """Five tokens in two rows: row 1 is filled up with tokens 1 and 2 of row 0; token 4 is in no row."""
    return Rows(torch.tensor([[0, 1, 2], [3, 1, 2], [99, -7, 4]]), bools([1, 1, 1], [1, 1, 1], [0, 0, 0]))


def test_gather_takes_tokens_and_leaves_empty_slots_zero() -> None:
    flat = torch.arange(1.0, 6.0)[:, None] * torch.tensor([1.0, 10.0])
    rows = borrowed().gather(flat)
    assert rows[..., 0].tolist() == [[1, 2, 3], [4, 2, 3], [0, 0, 0]]
    assert rows[..., 1].tolist() == [[10, 20, 30], [40, 20, 30], [0, 0, 0]]
    flat[0] = NAN  # where empty slots point: what is there must not reach them
    assert borrowed().gather(flat)[2].tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_scatter_undoes_gather(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    flat = torch.randn(5, *shape).mul(9).to(dtype)
    back = borrowed().scatter(borrowed().gather(flat), 5)
    assert back.dtype == dtype
    assert torch.equal(back[:4], flat[:4])
    assert not back[4].any()


def test_scatter_takes_a_tokens_own_slot_not_a_borrowed_one() -> None:
    rows = torch.tensor([[[1.0], [2], [3]], [[4], [50], [60]], [[7], [8], [9]]])
    assert borrowed().scatter(rows, 5).flatten().tolist() == [1, 2, 3, 4, 0]


def test_gradients_flow_through_first_slots_only() -> None:
    rows = torch.randn(3, 3, 2, dtype=torch.float64, requires_grad=True)
    borrowed().scatter(rows, 5).sum().backward()
    assert rows.grad is not None
    assert rows.grad[..., 0].tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    flat = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(borrowed().gather, (flat,))
    assert torch.autograd.gradcheck(lambda r: borrowed().scatter(r, 5), (rows,))


def test_rows_work_under_pytorchs_demand_for_determinism() -> None:
    """Nothing in gather and scatter, forward or backward, depends on the order of summation."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        flat = torch.randn(500, 4, requires_grad=True)
        rows = Rows(torch.randint(0, 500, (40, 32)), torch.rand(40, 32) < 0.9)
        results = []
        for _ in range(3):
            flat.grad = None
            y = rows.scatter(rows.gather(flat) ** 2, 500)
            y.square().sum().backward()
            assert flat.grad is not None
            results.append((y.detach(), flat.grad.clone()))  # type: ignore[union-attr]
    finally:
        torch.use_deterministic_algorithms(before)
    for y, grad in results[1:]:
        assert torch.equal(y, results[0][0])
        assert torch.equal(grad, results[0][1])


def test_the_where_of_rows_follows_its_tokens() -> None:
    where = Where(
        torch.arange(1.0, 6.0).view(1, 5, 1),
        valid=bools([1, 1, 0, 1, 1]),
        placed=bools([1, 0, 1, 1, 1]),
        objects=torch.tensor([[7, 6, 5, 4, 3]]),
    )
    cut = borrowed().where(where)
    assert listed(cut.objects) == torch.where(borrowed().valid, 7 - borrowed().index, 0).tolist()
    assert listed(cut.valid) == [[True, True, False], [True, True, False], [False] * 3]
    assert listed(cut.placed) == [[True, False, True], [True, False, True], [False] * 3]
    assert cut.positions.flatten().tolist() == [1, 0, 0, 4, 0, 0, 0, 0, 0]
    plain = borrowed().where(Where(torch.ones(1, 5, 1)))
    assert listed(plain.valid) == borrowed().valid.tolist()
    assert plain.placed is None


@pytest.mark.parametrize("masks", [{}, dict(segment=True), dict(grid=(2, 3))], ids=str)
def test_places_without_values_are_places(masks: dict[str, Any]) -> None:
    """On meta, as fake tensors and under vmap, where nothing can be looked at."""
    given = dict(masks)
    if "segment" in given:
        given["segment"] = torch.tensor([[0, 0, 0, 1, 1, -1]])

    def of(positions: Tensor) -> Tensor:
        here: Any = {n: v.to(positions.device) if isinstance(v, Tensor) else v for n, v in given.items()}
        where = Where(positions, **here)
        assert where.extent is None
        return where.positions

    assert of(torch.zeros(1, 6, 2, device="meta")).device.type == "meta"
    assert torch.vmap(of)(torch.rand(3, 1, 6, 2)).shape == (3, 1, 6, 2)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert of(mode.from_tensor(torch.rand(1, 6, 2))).shape == (1, 6, 2)
