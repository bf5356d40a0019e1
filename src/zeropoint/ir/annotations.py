"""Discardable attributes that zeropoint attaches to ops: their names and their meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast, get_args

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.numerics.dot_forms import dot_form
from zeropoint.numerics.profile import DEFAULT_PROFILE, Profile
from zeropoint.numerics.profile import profile as named_profile

NAME = "zeropoint.name"
"""On arguments and results of `@main`: the name of the input or output in the original model."""
INDEX_BOUNDS = "zeropoint.index_bounds"
"""On an integer argument of `@main` that holds indices, such as token ids: the least and the greatest valid value.
The original model fails for others, but StableHLO's `gather` clamps them."""
MASK = "zeropoint.mask"
"""On a float argument of `@main` that is only added to the operands of softmaxes. -inf is a valid element; it hides a
score."""
ORDER = "zeropoint.order"
"""On an argument or result of `@main` whose dimensions an exporter permuted: dimension i is dimension `order[i]` of the
tensor in the original model."""
FILE_ORDER = "zeropoint.file_order"
"""On an argument or result of `@main` beside which the importer of an exported file inserted a transpose: dimension i
in the file is dimension `file_order[i]` here. An exporter may remove the transpose."""
TARGET = "zeropoint.target"
"""On the module: the target that the program was quantized for."""
PROFILE = "zeropoint.profile"
"""On the module: the numerics profile of its quantized ops. On a region, and later on the ops that replace it: the
profile of a kernel that rounds differently from the rest of the program."""
ORIGIN = "zeropoint.origin"
"""On the module of an exported StableHLO file: the target and the profile that it was quantized for."""
ROW_PROFILE = "zeropoint.row_profile"
"""On a region: the profile of its row in the target's table, if the user chose another profile for the program. Kernels
that XNNPACK does not have run in LiteRT's own code, by the profile of the row."""
COMPUTED_WEIGHTS = "zeropoint.computed_weights"
"""On a product of two activations: it is a fully connected layer of LiteRT whose weights another operator computes. It
rounds as one."""
SHARED_BIAS = "zeropoint.shared_bias"
"""On a contraction of a quantized file: its float bias is a constant that another contraction adds, too."""
MERGE_NAME = "zeropoint.merge_name"
"""On a product that an exporter rewrote over the dimensions before a reshape which merges them: the reshape's name."""
TENSORS = "zeropoint.tensors"
"""On the module: pairs of names, the first of a tensor in the original model, the second of the op that computes it
(`tensor_names.py`)."""
FACTS = "zeropoint.facts"
"""On arguments of `@main`, and on a region and later the op that produces its output: a list of facts that explain the
value's quantization parameters. On an op with a float result that kernels read, and later on the ops that quantize this
result: the facts of each type in which kernels read it. The last fact of a type is `parameters`, whose value is the
type."""


def facts_name(result: int) -> str:
    """The attribute with the facts of a region's result: `zeropoint.facts`, `zeropoint.facts1`, ..."""
    return f"{FACTS}{result or ''}"


def facts_by_type(facts: Iterable[Fact]) -> dict[str, tuple[Fact, ...]]:
    """Maps each type in which kernels read a float value to its facts."""
    found: dict[str, tuple[Fact, ...]] = {}
    pending: list[Fact] = []
    for fact in facts:
        pending.append(fact)
        if fact.name == "parameters":
            found[fact.value] = (*found.get(fact.value, ()), *pending)
            pending = []
    return found


DEMANDS = "zeropoint.demands"
"""On a region: the demands of the user's recipe, a list of facts of salience `user`: `quantize` (true, false),
`bits`, `granularity` (per_channel, per_tensor; of weights), `weight_bits`, `block_size`, `weight_symmetric`,
`activations` (float, quantized), `activation_scales` (per_row, per_tensor), `symmetric` (true, false; of activations),
`observer`."""
DEMANDS_ON_RESULTS = ("bits", "observer", "range", "scale", "symmetric")
"""Demands that say how a result is rounded."""
BLOCK_SIZE, WEIGHT_BITS, WEIGHT_SYMMETRIC = "block_size", "weight_bits", "weight_symmetric"
"""Demands on the weights of a kernel: the number of terms in a block, the storage width in bits, zero points of 0."""
FLOAT_ACTIVATIONS: Mapping[str, str] = {"activations": "float"}
"""The demand that a kernel stays float and only its weights are stored in few bits."""
DOT_FORM = "zeropoint.dot_form"
"""On a contraction of 8-bit integers: the form in which its products are added (`numerics.dot_forms`)."""
FUNCTION = "zeropoint.function"
"""On a region of the kernel `elementwise_unary`: the name of its function, if it has one: gelu, hard_swish."""
UNIQUE_NAME = "zeropoint.unique_name"
"""On a region whose op in the model became several kernels: a name that no other kernel has, such as `gru_8`. The op
that produces the region's output carries it as the fact `zeropoint.unique_name`."""
COMPOSITE = "zeropoint.composite"
"""On a region that computes a part of a user's composite: the composite's kernel."""
FLOAT_REASON = "zeropoint.float_reason"
"""On a region that stays float, and later on its ops: the reason. An op that has one before fusion gets no region."""
REAL_RESULT = "zeropoint.real_result"
"""On a contraction that should return its accumulators as floats, on a target where others do not: the reason."""
INTEGER_SUMS = "its sums are integers, which "
"""The beginning of a float reason of ops that only scale the integer sums of a kernel."""
KERNEL = "zeropoint.kernel"
"""On the ops of a region that compute in float: the region's kernel."""
KERNEL_NUMBER = "zeropoint.kernel_number"
"""Beside `KERNEL`, if the region reads another float region of the same kernel: a number from 1, which tells them
apart."""
FILE_HAS_FLOATS = "zeropoint.file_has_floats"
"""On an op of a quantized file whose runtime computes it in floats, though the target has a kernel for it."""
RESIZED = "zeropoint.resized"
"""On a product with a constant matrix that is a linear resize of one dimension: this dimension."""
WEIGHTS_OF_FILE = "zeropoint.float_weights"
"""On a contraction of quantized data by weights that are floats in the file."""
SCALED_AFTER = "zeropoint.scaled_after"
"""On a contraction of a quantized file whose weights took over factors that the file has behind it: a batch norm."""
WHOLE_WINDOWS = "zeropoint.whole_windows"
"""On a mean of a quantized file that `ceil_mode` and `count_include_pad` apply to: the size of the window."""
CHANNELS_LAST = "zeropoint.channels_last"
"""On a `reduce_window` of a file whose images are channels last. A window over one dimension does not show it."""
BY_CHANNEL = "zeropoint.by_channel"
"""On a `quant.dcast` of a quantized file that repeats the one scale of its type for each channel."""
ANNOTATED = "zeropoint.annotated"
"""On a `quant.dcast` that stands for an annotation of the file, not for a cast in it. A kernel may leave the rounding
out."""
OF_TARGET = "zeropoint.of_target"
"""On a cast: a target's kernel fixed the type, so it describes only the range of the value."""
RESCALE = "zeropoint.rescale"
"""On an op that only changes quantization parameters: the two demands that conflict."""
SAME_INTEGERS = "zeropoint.same_integers"
"""On a cast between storage types of the operands and the result of one kernel: integers stay, or are clamped."""
STATED = "zeropoint.stated"
"""On a rescale between two types that the model states: its rounding is the model's, and stays."""
FROM_STATED = "zeropoint.from_stated"
"""On a rescale of a result whose type the model states: values that this type saturates stay saturated."""
PINNED = "zeropoint.pinned"
"""On a constant whose values are storage integers: their quantized type."""
REST = "zeropoint.rest"
"""On a constant bias: what its integers in the file have beyond its f32 numbers, one f64 for each element."""
RESCALE_COUNTS = "zeropoint.rescale_counts"
"""On the module: the number of rescales before and after they were moved."""
CORRECTIONS = "zeropoint.corrections"
"""On the module: a list of facts about the corrections that were tried, their gains, and which one was kept."""
EQUALIZED = "zeropoint.equalized"
"""On a region whose channels were divided by factors that its readers' weights undo: the factors in words."""
BUDGET = "zeropoint.budget"
"""On the module: a list of facts about the kernels that the search under a budget widened or kept float."""
DERIVED = "zeropoint.derived"
"""On a `quant.stats` that nobody observed or stated: where the range comes from."""
EXTREMES = "zeropoint.extremes"
"""On a `quant.stats`: [minimum, maximum] of the observed values if the stated range leaves some of them out."""
BOUNDED = "zeropoint.bounded"
"""On a `quant.stats`: its range is a bound that a pass computed, not observed (`calibrate/bounded.py`)."""
QUANTILES = "zeropoint.quantiles"
"""On a `quant.stats`: quantiles of the observed values, the midpoints of parts of equal count, in ascending order."""
ACCUMULATOR = "zeropoint.accumulator"
"""On a contraction or its bias addition with a quantized result of 32-bit storage: `i64` if the kernel accumulates in
64 bits because 32 could overflow. No quantized type is that wide. The value does not saturate."""
ACTIVATION_SCALES = "zeropoint.activation_scales"
"""On a region, and later on its `dot_general`: `per_row` if the kernel rounds each row of its activations to 8 bits,
in the row's own range (`numerics.row_scales`), as its row in the target's table says."""
PER_ROW = "per_row"
ZERO_POINTS = "zeropoint.zero_points"
"""On a contraction of integers: `inside` if zero points were subtracted from its operands, `after` if its sums are
corrected."""
EXPRESSED = "zeropoint.expressed"
"""On an argument or result, or on the op that produces an integer value: the quantized type that the value stores."""


def carry(source: Operation, target: Operation, *names: str) -> None:
    """Copy the named attributes that `source` has."""
    for name in names:
        if name in source.attributes:
            target.attributes[name] = source.attributes[name]


def is_wide(value: SSAValue) -> bool:
    """Whether the integers of a quantized value have 64 bits (`ACCUMULATOR`)."""
    return isinstance(value.owner, Operation) and ACCUMULATOR in value.owner.attributes


def has_row_scales(op: Operation) -> bool:
    """Whether an op rounds each row of its activations to 8 bits (`ACTIVATION_SCALES`)."""
    return ACTIVATION_SCALES in op.attributes


def unique_name(op: Operation) -> str | None:
    """The name that a region, or the op that produces its output, has besides its location; None without one."""
    found = op.attributes.get(UNIQUE_NAME)
    if isinstance(found, StringAttr):
        return found.data
    return next((fact.value for fact in facts_of(op) if fact.name == "unique name"), None)


def merge_name(op: Operation) -> str | None:
    """The name of the reshape before a product (`MERGE_NAME`); None without one."""
    found = op.attributes.get(MERGE_NAME)
    return found.data if isinstance(found, StringAttr) else None


def own_profile(op: Operation) -> str | None:
    """The op's own numerics profile; None if it uses the program's."""
    found = op.attributes.get(PROFILE)
    return found.data if isinstance(found, StringAttr) else None


def profile_of(op: Operation, program: str | None) -> Profile:
    """The profile that an op computes by: its own, or else `program`'s, or else StableHLO's.

    Raises ValueError if there is no profile of that name.
    """
    return named_profile(own_profile(op) or program or DEFAULT_PROFILE)


Salience = Literal["default", "calibrated", "user", "kernel"]
"""The strength of a fact, weakest first: a default, observed in calibration, set by a user, required by a kernel."""


@dataclass(frozen=True)
class Fact:
    """A known property of a value or a kernel, with its source: `scale`, `0.5`, `calibrated`, `quant.stats 'conv1'`.

    As an attribute `{name = "scale", value = "0.5", salience = "calibrated", source = "quant.stats 'conv1'"}`.
    """

    name: str
    value: str
    salience: Salience
    source: str

    def attribute(self) -> DictionaryAttr:
        """The fact as an attribute."""
        return _fact_attribute(self)

    @staticmethod
    def of(attribute: Attribute) -> Fact:
        """The fact that an attribute holds.

        Raises VerifyException if it is not a dictionary, an entry is missing or no string, or the salience is unknown.
        """
        entries = attribute.data if isinstance(attribute, DictionaryAttr) else dict[str, Attribute]()
        texts = [found.data for key in _ENTRIES if isinstance(found := entries.get(key), StringAttr)]
        if len(texts) != len(_ENTRIES):
            raise VerifyException(
                f"found the fact {attribute}, expected a dictionary of strings: {', '.join(_ENTRIES)}"
            )
        name, value, salience, source = texts
        if salience not in get_args(Salience):
            known = ", ".join(get_args(Salience))
            raise VerifyException(f"found a fact of salience '{salience}', expected one of: {known}")
        return Fact(name, value, cast("Salience", salience), source)


@lru_cache(1 << 14)
def _fact_attribute(fact: Fact) -> DictionaryAttr:
    """The attribute of a fact. Every stage states the facts of the one before again."""
    entries = {"name": fact.name, "value": fact.value, "salience": fact.salience, "source": fact.source}
    return DictionaryAttr({key: _string(text) for key, text in entries.items()})


@lru_cache(1 << 12)
def _string(text: str) -> StringAttr:
    return StringAttr(text)


_ENTRIES = ("name", "value", "salience", "source")
"""The entries of a fact's attribute, in the order of the fields of `Fact`."""
EXPRESSED_SUMS = Fact("parameters", "accumulators in i32", "kernel", "floats read it")
"""The fact of a contraction whose accumulator is dequantized directly."""


def listed_facts(listed: Attribute | None) -> list[Fact]:
    """The facts in an attribute; none if there is no attribute. Raises VerifyException if it is not a list of facts."""
    if listed is None:
        return []
    if not isinstance(listed, ArrayAttr):
        raise VerifyException(f"found {listed}, expected a list of facts")
    return [Fact.of(fact) for fact in cast("ArrayAttr[Attribute]", listed)]


def facts_of(op: Operation, attribute: str = FACTS) -> list[Fact]:
    """The facts in an op's attribute of that name. Raises VerifyException if it is not a list of facts."""
    return listed_facts(op.attributes.get(attribute))


def state_facts(op: Operation, facts: Iterable[Fact], attribute: str = FACTS) -> None:
    """Attach facts to an op, replacing those in the same attribute."""
    op.attributes[attribute] = ArrayAttr([fact.attribute() for fact in facts])


def demanded_by(op: Operation) -> str | None:
    """The recipe rule that sets the scale, range or width of an op's result; None if there is none."""
    stating = (fact.source for fact in facts_of(op, DEMANDS) if fact.name in ("scale", "range", "bits"))
    return next(stating, None)


_FACT_LISTS = re.compile("|".join([rf"{re.escape(FACTS)}\d*", *map(re.escape, (DEMANDS, CORRECTIONS, BUDGET))]))
"""The names of attributes that are lists of facts."""


def is_facts_name(name: str) -> bool:
    """Whether an attribute of that name is a list of facts."""
    return _FACT_LISTS.fullmatch(name) is not None


def check_annotations(op: Operation) -> None:
    """Check the facts and the dot form of an op, and the attributes of a function's arguments and results.

    Raises VerifyException for an attribute that is not a list of facts, for a form that does not exist, and for
    attributes of more or fewer arguments or results than the function has.
    """
    if isinstance(op, FuncOp):
        _check_ports(op)
    for name, attribute in _annotations(op):
        try:
            if is_facts_name(name):
                listed_facts(attribute)
            elif name == DOT_FORM:
                dot_form(attribute.data if isinstance(attribute, StringAttr) else str(attribute))
            elif name == ACTIVATION_SCALES and attribute != StringAttr(PER_ROW):
                raise VerifyException(f'found {attribute}, expected "{PER_ROW}"')
        except (VerifyException, ValueError) as error:
            raise VerifyException(f"attribute '{name}': {error}") from error


def _check_ports(function: FuncOp) -> None:
    signature = function.function_type
    for kind, given, types in (
        ("argument", function.arg_attrs, signature.inputs),
        ("result", function.res_attrs, signature.outputs),
    ):
        if given is not None and len(given) != len(types):
            raise VerifyException(
                f"expects {kind} attribute array to have the same number of elements as the number of function "
                f"{kind}s, got {len(given)}, but expected {len(types)}"
            )


def _annotations(op: Operation) -> Iterator[tuple[str, Attribute]]:
    """The discardable attributes of an op, and of the arguments and results of a function."""
    yield from op.attributes.items()
    if isinstance(op, FuncOp):
        for ports in (op.arg_attrs, op.res_attrs):
            for attributes in ports or ():
                yield from attributes.data.items()
