"""Ranges of the arguments of torch's optimizers, whose signatures only have `float`."""

from typing import Annotated, Any

from ndformer.framework.registry.ranges import Ascending, Finite, Inside, NonNegative, Positive, Range, Rate, Share

OPTIMIZER_HINTS: dict[str, Any] = dict(
    lr=Positive,
    weight_decay=NonNegative,
    betas=tuple[Rate, Rate],
    eps=NonNegative | tuple[Positive | None, Positive],  # Adafactor has two
    momentum=Rate,
    dampening=Share,
    alpha=Share,
    rho=Share,
    lambd=NonNegative,
    t0=NonNegative,
    lr_decay=NonNegative,
    initial_accumulator_value=NonNegative,
    momentum_decay=NonNegative,
    etas=tuple[Inside, Annotated[float, Range(1, 100, above=True)]],
    step_sizes=Annotated[tuple[Positive, Positive], Ascending()],
    beta2_decay=Annotated[float, Range(-10, 0)],
    d=Positive,
    ns_coefficients=tuple[Finite, Finite, Finite],
    ns_steps=Annotated[int, Range(1, 99)],
)
