"""Load a .tflite file as a float program in the file's layout, channels last. Quantized tensors are pinned.

An int8 or 16x8 model needs no calibration data, because the file has the type of every value. For a file that zeropoint
exported, inputs and outputs have the shapes of the original model, because the metadata records how dimensions were
moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from zeropoint.errors import port_order
from zeropoint.frontend.errors import ModelError, NodeError, listed
from zeropoint.frontend.litert.call import COMPUTED, Call, CallValues
from zeropoint.frontend.litert.converters import CONVERTERS, OPERANDS
from zeropoint.frontend.litert.elementwise import CallConverter
from zeropoint.frontend.litert.graph import LiteRtModel, LiteRtTensor, Operator, Ports
from zeropoint.frontend.litert.reader import inside, read_model
from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.tensors import element_of_dtype
from zeropoint.ir.annotations import FILE_HAS_FLOATS, FILE_ORDER
from zeropoint.ir.constants import is_constant
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import name_location
from zeropoint.ir.program import Program, name_attributes, with_orders
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import TransposeOp
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.verification import InvalidProgram, verify
from zeropoint.ir.weights import Weights
from zeropoint.limits import LimitExceeded
from zeropoint.progress import phase, shown

CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
CASTS = frozenset({"QUANTIZE", "DEQUANTIZE"})


def load_litert(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Program:
    """Load the float program of a .tflite file. `shapes` are other shapes of inputs than those in the file.

    Raises ModelError, whose message is one line that starts with the path, and OSError if the file cannot be read.
    """
    try:
        with phase(f"read {path.name}"):
            model = read_model(path.read_bytes())
        program = _Importer(model, shapes).program()
        with phase("verify"):
            verify(program.module)
        return program
    except (ModelError, InvalidProgram, LimitExceeded) as error:
        raise ModelError(f"{path}: {error}") from error


def _with_shape(name: str, kind: TensorType[Attribute], shapes: Mapping[str, tuple[int, ...]]) -> TensorType[Attribute]:
    """The type of an input with the shape that is given for it, if any. Raises ModelError for another rank."""
    shape = shapes.get(name, kind.get_shape())
    if len(shape) != len(kind.get_shape()) or min(shape, default=1) < 1:
        found, expected = ("x".join(map(str, sizes)) for sizes in (shape, kind.get_shape()))
        raise ModelError(f"found shape {found} for '{name}', expected as many sizes as {expected}, all above 0")
    return TensorType(kind.get_element_type(), shape)


SORTED = ("/values", "/indices")
"""What the exporter appends to the name of a sort for the results of TOPK_V2."""


def _result_name(operator: Operator, position: int, model: LiteRtModel) -> str:
    """The name of the op that makes a result: that of its tensor, without what the exporter appended."""
    name = model.origin(model.tensors[operator.outputs[position]])
    return name.removesuffix(SORTED[position]) if operator.name == "TOPK_V2" and position < len(SORTED) else name


def _described(operator: Operator, model: LiteRtModel) -> str:
    """The operator in messages, named after its first result: `'block/conv' (CONV_2D)`."""
    name = model.tensors[operator.outputs[0]].name if operator.outputs else str(operator.index)
    return f"'{name}' ({operator.name})"


class LostResults(NodeError):
    """The results of a loop are unknown, because operators in it cannot be converted, which were reported."""


class _Importer:
    """Converts the operators of a graph in order and collects the problems."""

    def __init__(self, model: LiteRtModel, shapes: Mapping[str, tuple[int, ...]]):
        self._model = model
        self._check_names(model.inputs, "input")
        self._check_names(model.outputs, "output")
        given = [model.tensors[index] for _, index in model.inputs]
        ranks = [(name, len(model.tensors[index].shape)) for name, index in model.inputs]
        self._moved = [port_order(model.metadata, "inputs", name, rank) for name, rank in ranks]
        kinds = {
            name: self._input_type(tensor, order)
            for (name, _), tensor, order in zip(model.inputs, given, self._moved, strict=True)
        }
        for name in shapes.keys() - kinds.keys():
            raise ModelError(f"found a shape for '{name}', expected one of the inputs: {', '.join(kinds)}")
        types = [_with_shape(name, kind, shapes) for name, kind in kinds.items()]
        self._is_resized = types != list(kinds.values())
        self._block = Block(arg_types=types)
        self._weights = Weights()
        self._build = Builder(self._block, self._weights, {})
        self._values = CallValues(model, self._build, convert=self._convert_inside)
        self._problems: list[str] = []
        self._has_casts = any(operator.name in CASTS for operator in model.operators)
        self._moved_inputs: dict[int, tuple[SSAValue, Sequence[int]]] = {}
        """Inputs that have another order of dimensions in the file, with that order."""

    def _check_names(self, ports: Ports, what: str) -> None:
        for name, count in Counter(name for name, _ in ports).items():
            if count > 1:
                raise ModelError(f"found {count} {what}s '{name}', expected unique names")

    def _input_type(self, tensor: LiteRtTensor, order: Sequence[int]) -> TensorType[Attribute]:
        if tensor.data is not None:
            raise ModelError(f"found the constant '{tensor.name}' as an input, expected a tensor without data")
        shape = [0] * len(tensor.shape)
        for axis, dimension in enumerate(order):
            shape[dimension] = tensor.shape[axis]
        element = f32 if tensor.is_quantized else element_of_dtype(tensor.dtype)
        return TensorType(element, shape)

    def program(self) -> Program:
        """The program. Raises ModelError naming every operator that cannot be converted."""
        for (name, index), argument, order in zip(self._model.inputs, self._block.args, self._moved, strict=True):
            argument.location = self._build.location = name_location(name)
            if list(order) != sorted(order):
                self._moved_inputs[index] = (argument, order)
            kind = self._model.tensors[index].quantized
            self._values.put(index, self._moved_port(argument, order, kind))
        self._convert_all(shown(self._model.operators, "import"))
        if self._problems:
            count = f"{len(self._problems)} operators are" if len(self._problems) > 1 else "1 operator is"
            unknown = all(": " in problem for problem in self._problems)
            fix = self._other_shapes() if unknown else "; see docs/import.md"
            raise ModelError(f"{count} not supported: {listed(self._problems)}{fix}")
        results, orders = self._results()
        self._block.add_op(ReturnOp(*results))
        remove_dead_ops(self._block)
        types = ([value.type for value in self._block.args], [value.type for value in results])
        names = [[name for name, _ in ports] for ports in (self._model.inputs, self._model.outputs)]
        function = FuncOp(
            "main",
            types,
            Region(self._block),
            arg_attrs=with_orders(
                name_attributes(names[0], self._build.input_bounds(self._block)), FILE_ORDER, self._moved
            ),
            res_attrs=with_orders(name_attributes(names[1]), FILE_ORDER, orders),
        )
        return Program(ModuleOp([function]), self._weights)

    def _convert_all(self, operators: Iterable[Operator]) -> bool:
        """Convert operators in order. Returns whether that worked."""
        lost, problems = set[int](), len(self._problems)
        for operator in operators:
            if lost.isdisjoint(operator.inputs) or operator.name not in CONVERTERS:
                self._convert(operator, lost)
            else:
                lost.update(operator.outputs)
        return len(self._problems) == problems

    def _convert_inside(self, operators: Iterable[Operator]) -> None:
        if not self._convert_all(operators):
            raise LostResults

    def _other_shapes(self) -> str:
        """What to try if sizes in the file only stand for those of a run."""
        for name, index in self._model.inputs:
            tensor = self._model.tensors[index]
            if tensor.dynamic and not self._is_resized and not any(COMPUTED in problem for problem in self._problems):
                shape = "x".join(map(str, tensor.shape))
                return (
                    f"; the file has {shape} in place of an unknown shape of '{name}', give it with --shape {name}=..."
                )
        return ""

    def _moved_port(self, value: SSAValue, order: Sequence[int], kind: UniformQuantizedType | None) -> SSAValue:
        """An input or output, transposed. If the tensor is pinned, so is the value before the transpose."""
        if list(order) == sorted(order):
            return value
        value = value if kind is None else self._values.pinned(value, kind)
        return self._build.insert(TransposeOp(value, order))

    def _returned_type(self, index: int) -> UniformQuantizedType | None:
        """The type of an output: its own, or that of the integers which a DEQUANTIZE converts to it."""
        for operator in self._model.every_operator():
            # If there is no operand, the file is broken, and the conversion reported it.
            if operator.name == "DEQUANTIZE" and operator.outputs[:1] == (index,) and operator.inputs[:1] > (-1,):
                return self._model.tensors[operator.inputs[0]].quantized
        return self._model.tensors[index].quantized

    def _converted(self, operator: Operator, converter: CallConverter) -> SSAValue | tuple[SSAValue, ...]:
        """The results of an operator. A QUANTIZE of an input comes before the transpose of the input."""
        expected, counts = OPERANDS.get(operator.name, ("", None))
        if counts is not None and len(operator.inputs) not in counts:
            raise NodeError(f"found {len(operator.inputs)} operands, expected {expected}; the file is broken")
        moved = self._moved_inputs.get(operator.inputs[0]) if operator.inputs else None
        if moved is None or operator.name != "QUANTIZE" or self._model.tensors[operator.inputs[0]].is_quantized:
            return converter(Call(operator, self._values))
        return self._moved_port(*moved, self._model.tensors[operator.outputs[0]].quantized)

    def _convert(self, operator: Operator, lost: set[int]) -> None:
        where = _described(operator, self._model)
        try:
            converter = CONVERTERS.get(operator.name)
            if converter is None:
                raise NodeError
            if not operator.outputs:
                raise NodeError("found no outputs, expected at least one")
            self._build.location = name_location(_result_name(operator, 0, self._model))
            last = self._build.block.last_op
            with inside(f"options of operator {where}"):
                found = self._converted(operator, converter)
            if self._has_casts and self._reads_floats(operator):
                self._mark_floats(last)
            self._put(operator, found if isinstance(found, tuple) else (found,))
        except (NodeError, LimitExceeded) as error:
            lost.update(operator.outputs)
            if not isinstance(error, LostResults):
                self._problems.append(f"{where}: {error}" if str(error) else where)
        except Exception as error:
            error.add_note(f"operator {where}")
            raise

    def _put(self, operator: Operator, results: Sequence[SSAValue]) -> None:
        """Record the results of an operator."""
        if len(results) != len(operator.outputs):
            raise NodeError(f"found {len(operator.outputs)} outputs, expected {len(results)}")
        for position, (index, value) in enumerate(zip(operator.outputs, results, strict=True)):
            self._check_result(self._model.tensors[index], value)
            self._build.location = name_location(_result_name(operator, position, self._model))
            if isinstance(value.owner, Operation) and len(results) > 1:
                value.owner.location = self._build.location
            if self._is_padding(operator):
                self._values.found[index] = value
            else:
                self._values.put(index, value)

    def _reads_floats(self, operator: Operator) -> bool:
        """Whether LiteRT computes an operator in floats: it reads or returns some, and is not a cast."""
        tensors = [self._model.tensors[index] for index in (*operator.inputs, *operator.outputs) if index >= 0]
        computed = (tensor for tensor in tensors if tensor.data is None)
        return operator.name not in CASTS and any(tensor.dtype.kind == "f" for tensor in computed)

    def _mark_floats(self, last: Operation | None) -> None:
        """Mark the ops after `last`. Between two casts, they look like those of an operator on integers."""
        op = self._build.block.first_op if last is None else last.next_op
        while op is not None:
            if not all(map(is_constant, op.results)):
                op.attributes[FILE_HAS_FLOATS] = UnitAttr()
            op = op.next_op

    def _is_padding(self, operator: Operator) -> bool:
        """Whether an operator only pads images of convolutions with zeros, so that they can absorb the padding."""
        if operator.name != "PAD":
            return False
        (padded,) = operator.outputs
        pairs = self._model.tensors[operator.inputs[1]].data
        if pairs is None or pairs.shape != (4, 2) or pairs[[0, 3]].any():
            return False
        kinds = [self._model.tensors[index].quantized for index in (operator.inputs[0], padded)]
        readers = [other.name for other in self._model.every_operator() if padded in other.inputs]
        kept = padded not in {index for _, index in self._model.outputs}
        return kept and kinds[0] == kinds[1] and bool(readers) and CONVOLUTIONS.issuperset(readers)

    def _check_result(self, tensor: LiteRtTensor, value: SSAValue) -> None:
        """Raise NodeError if the shape in the file differs from the shape inferred from operands and options."""
        if shape_of(value) != tensor.shape and not tensor.dynamic and not self._is_resized:
            raise NodeError(
                f"found shape {list(tensor.shape)} of its result, expected {list(shape_of(value))}; the file is broken"
            )

    def _results(self) -> tuple[list[SSAValue], list[Sequence[int]]]:
        """The values that the program returns, and the order of each one's dimensions in the file."""
        found: list[SSAValue] = []
        orders: list[Sequence[int]] = []
        for name, index in self._model.outputs:
            try:
                value = self._values.value(index)
            except NodeError as error:
                raise ModelError(f"output '{name}': {error}") from error
            self._build.location = name_location(name)
            order = port_order(self._model.metadata, "outputs", name, len(shape_of(value)))
            kind, moved = self._returned_type(index), list(order) != sorted(order)
            value = self._moved_port(value, [int(axis) for axis in np.argsort(order)], kind)
            found.append(self._values.pinned(value, kind) if moved and kind is not None else value)
            orders.append(order)
        self._check_variables(found)
        return found, orders

    def _check_variables(self, results: Sequence[SSAValue]) -> None:
        """Raise ModelError for a variable whose next value has another shape, which its input does not take."""
        given = {name: value for (name, _), value in zip(self._model.inputs, self._block.args, strict=True)}
        returned = {name: value for (name, _), value in zip(self._model.outputs, results, strict=True)}
        for name, following in self._model.variables.items():
            shapes = [shape_of(value) for value in (returned[following], given[name])]
            if shapes[0] != shapes[1]:
                found, expected = ("x".join(map(str, shape)) for shape in shapes)
                fix = f"; give its shape, too, with --shape {name}={found}" if self._is_resized else ""
                raise ModelError(
                    f"variable '{name}': found shape {found} of its next value, expected {expected} as before{fix}"
                )
