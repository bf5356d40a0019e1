"""The user's options of quantization, and the checks of arguments of the Python API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from sys import float_info
from typing import Any, cast

from zeropoint.budget import Budget
from zeropoint.calibrate import DEFAULT_OBSERVER, observer_factory
from zeropoint.correct import DEFAULT_EFFORT, RESULTS, check_methods
from zeropoint.errors import OptionError
from zeropoint.interp import check_mask, has_padding
from zeropoint.interp.trips import LOOPS
from zeropoint.ir.arguments import Sample
from zeropoint.ir.outputs import check_folder
from zeropoint.ir.program import Program
from zeropoint.numerics.arrays import plain
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.recipe import RecipeError, RecipeRules
from zeropoint.solve import DEFAULT_RANGES, RANGE_RULES
from zeropoint.targets import target as named_target
from zeropoint.workers import MOST_WORKERS

MOST_CALLERS = 1000
"""The maximum number of concurrent calls of native code. Each has its own memory and threads from the start."""
MOST_ROUNDS = 1_000_000
"""The maximum number of rounds of a profile, which keeps the times of each round."""


@dataclass(frozen=True)
class Options:
    """The user's options.

    `profile` defaults to the target's. `observer` names how calibration turns values into a range. With `integer_io`,
    inputs and outputs are storage integers instead of floats. `recipe` has demands for parts of the model. `ranges`
    names how a range becomes a scale and a zero point: `asymmetric`, `minmax-nudged`. `least_sqnr` is the minimum SQNR
    of every output against float, in dB. Kernels that the target has in two widths become wide where needed, until the
    program, with its corrections, reaches it on all samples (`zeropoint.budget`). `effort` selects the corrections that
    are tried after the parameters are decided: `none`, `fast`, `balanced`, `best` (`zeropoint.correct`). `corrections`
    lists them by name instead. `budget` limits quality, size or latency: a search widens kernels, or keeps them in
    float, until the budget is met (`zeropoint.budget`). `mask` names an input that is 0 at padding, which does not
    count (`zeropoint.interp.padding`).
    """

    target: str = "cpu"
    profile: str | None = None
    observer: str = DEFAULT_OBSERVER
    integer_io: bool = False
    recipe: RecipeRules | None = None
    ranges: str = DEFAULT_RANGES
    least_sqnr: float | None = None
    effort: str = "none"
    corrections: Sequence[str] | None = None
    budget: Budget | None = None
    mask: str | None = None

    @property
    def io(self) -> str:
        """The inputs and outputs of the integer program: `float` or `integer`."""
        return "integer" if self.integer_io else "float"

    @property
    def is_searched(self) -> bool:
        """Whether widths are searched."""
        return self.budget is not None or self.least_sqnr is not None

    @property
    def chooses_ranges(self) -> bool:
        """Whether there are choices whose effect shows once all types are decided."""
        chosen = (self.recipe, self.observer, self.ranges)
        return chosen != (None, DEFAULT_OBSERVER, DEFAULT_RANGES)

    @property
    def needs_samples(self) -> bool:
        """Whether samples are needed after calibration."""
        return self.is_searched or bool(check_methods(self.effort, self.corrections))


def check_options(options: Options) -> None:
    """Check the options.

    Raises OptionError for an unknown observer, effort and so on, and for an impossible minimum. Also raises TargetError
    and RecipeError.
    """
    named_target(options.target)
    observer_factory(options.observer)
    check_methods(options.effort, options.corrections)
    if options.integer_io and RESULTS in (options.corrections or ()):
        raise OptionError(f"found correction '{RESULTS}' and integer results, which keep their storage; leave out one")
    if options.ranges not in RANGE_RULES:
        raise OptionError(f"found ranges '{options.ranges}', expected one of: {', '.join(RANGE_RULES)}")
    if options.profile is not None:
        named_profile(options.profile)
    least = options.least_sqnr
    if least is not None and not 0 <= least <= float_info.max:  # excludes nan, and integers above every float
        raise OptionError(f"found a minimum SQNR of {least}, expected a number of dB, 0 or more")
    if least is not None and options.budget is not None:
        raise OptionError("found least_sqnr and a budget, expected one of the two; quality=DB is a part of the budget")
    for rule in options.recipe.rules if options.recipe is not None else ():
        try:
            observer_factory(rule.settings.get("observer", options.observer))
        except OptionError as error:
            raise RecipeError(f"{rule}: key 'observer': {error}") from error


def listed(value: object) -> list[object] | None:
    """The items of a list or another iterable; None for anything else, including an array, a text and a dict."""
    is_other = isinstance(value, str | bytes | memoryview | Mapping) or hasattr(value, "dtype")
    return None if is_other or not isinstance(value, Iterable) else list(cast("Iterable[object]", value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    # Half of a surrogate pair is no text.
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_listed(value: object) -> bool:
    listed = cast("Iterable[object]", value) if isinstance(value, list) else (None,)
    return all(map(_is_text, listed))


def _is_callable(value: object) -> bool:
    return isinstance(value, bool) or callable(value)


_TEXT, _PATH, _FLAG = (_is_text, "a string"), (_is_path, "a path"), (_is_flag, "True or False")
_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "target": (_is_path, "the name of a target, or a .toml or .py file"),
    "least_sqnr": (_is_number, "a number of dB"),
    "corrections": (_is_listed, "a list of names"),
    "workers": (
        lambda value: _is_count(value) and cast("int", value) in range(-1, MOST_WORKERS + 1) and value != 0,
        f"1 to {MOST_WORKERS}, or -1",
    ),
    "progress": (_is_callable, "True, False, or a function of items and a description"),
    "callers": (lambda value: _is_count(value) and 1 <= cast("int", value) <= MOST_CALLERS, f"1 to {MOST_CALLERS}"),
    "rounds": (lambda value: _is_count(value) and 1 <= cast("int", value) <= MOST_ROUNDS, f"1 to {MOST_ROUNDS}"),
    **dict.fromkeys(("profile", "observer", "io", "ranges", "budget", "effort", "emit", "mask", "value"), _TEXT),
    **dict.fromkeys(("layout", "onnx_format", "onnx_weights", "name", "isa", "cpu", "triple"), _TEXT),
    **dict.fromkeys(("path", "journal", "save_stages", "stages", "model_explorer"), _PATH),
    **dict.fromkeys(("integer_io", "integer_only", "resume", "layers", "exact", "inline_weights"), _FLAG),
    **dict.fromkeys(("timing", "trials"), _FLAG),
    **dict.fromkeys(
        ("threads", "max_trips"),
        (lambda value: _is_count(value) and cast("int", value) >= 1, "1 or more"),
    ),
}
"""By argument, a check of its value and a description of the expected values."""
_OPTIONAL = {
    *("profile", "least_sqnr", "budget", "corrections", "mask", "journal", "save_stages", "max_trips", "stages"),
    "model_explorer",
    *("value", "name", "isa", "cpu", "triple"),
}
"""The arguments whose default is None."""


def check_arguments(**given: Any) -> None:
    """Raise OptionError for an argument of a wrong type or out of range. Names are checked where they are used.

    NumPy numbers are accepted as Python numbers (`plain`).
    """
    for name, value in given.items():
        fits, expected = _KINDS[name]
        found = plain(value)
        if value is None and name in _OPTIONAL:
            continue
        if not fits(value if isinstance(found, str) else found):  # an array that holds a string is not a string
            raise OptionError(f"found {name}={value!r:.200}, expected {expected}")


def check_trips(trips: int | None, *programs: Program) -> None:
    """Raise OptionError for a limit on trips where no program has a loop."""
    loops = any(op.name in LOOPS for program in programs for op in program.module.walk())
    if trips is not None and not loops:
        raise OptionError("found max_trips (--max-trips) without a loop, where it changes nothing; leave it out")


def check_journal(journal: str | Path | None, *, resume: bool) -> None:
    """Raise OptionError for a calibration to resume without a journal, and OutputError if there is no folder for the
    journal."""
    if resume and journal is None:
        raise OptionError("found resume=True without a journal, expected journal=FILE of the interrupted calibration")
    if journal is not None:
        check_folder(Path(journal))


def check_effort(effort: str, corrections: Sequence[str] | None) -> None:
    """Raise OptionError for an effort other than the default of `zp.quantize` together with corrections."""
    if corrections is not None and effort != DEFAULT_EFFORT:
        raise OptionError(
            f"found effort '{effort}' and corrections, expected one of the two: corrections replace an effort's"
        )


def check_without_data(options: Options, *, validation: bool) -> None:
    """Raise OptionError for an option that has an effect only with data, if there is none.

    The defaults need no data, because no corrections are tried without it. `validation` says whether there are
    validation samples.
    """
    fits = "samples to fit corrections on and to judge them"
    needs = (
        (options.least_sqnr is not None, "least_sqnr (--least-sqnr)", "samples to measure the outputs with"),
        (options.budget is not None, "a budget (--budget)", "samples to measure the outputs with"),
        (bool(options.corrections), f"corrections {', '.join(options.corrections or ())} (--correct)", fits),
        (options.effort not in ("none", DEFAULT_EFFORT), f"effort '{options.effort}' (--effort)", fits),
        (options.observer != DEFAULT_OBSERVER, f"observer '{options.observer}' (--observer)", "values to observe"),
        (options.mask is not None, f"mask '{options.mask}' (--mask)", "samples with padding"),
        (validation, "validation samples (--validation)", "samples to fit corrections on"),
    )
    for given, what, expected in needs:
        if given:
            raise OptionError(f"found {what} without data, expected {expected} (--data)")


def check_validation(options: Options) -> None:
    """Raise OptionError for validation samples if no correction is tried and no width is searched."""
    if not options.is_searched and not check_methods(options.effort, options.corrections):
        asked = f"effort '{options.effort}'" if options.corrections is None else "no corrections"
        raise OptionError(
            f"found validation samples (--validation) with {asked}, where they change nothing; leave out one of them"
        )


def check_padding(mask: str | None, *, padded: bool) -> None:
    """Raise OptionError for a mask that is 0 nowhere in the samples."""
    if mask is not None and not padded:
        raise OptionError(
            f"found mask '{mask}' (--mask) that is 0 nowhere in the data that is used, where it changes "
            f"nothing; leave it out"
        )


def check_masked(data: Iterable[Sample], program: Program, mask: str | None) -> None:
    """Raise OptionError for a mask that is not an input, or that is 0 nowhere in data that can be read twice."""
    check_mask(program, mask)
    if mask is not None and isinstance(data, Sized):
        check_padding(mask, padded=any(has_padding(sample, mask) for sample in data))


def one_of(name: str, found: str, choices: Sequence[str]) -> None:
    """Raise OptionError if an option is none of the choices."""
    check_arguments(**{name: found})
    if found not in choices:
        raise OptionError(f"found {name} '{found}', expected one of: {', '.join(choices)}")
