"""The constants of a program: small ones are inline in the IR, large ones are behind handles.

A constant of more than 64 elements is an array in `Weights`. The IR holds a `dense_resource<w...>`, whose handle is a
hash of the content. So error messages and clones stay small, and equal weights are stored once.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, DenseResourceAttr, StringAttr, TensorType
from xdsl.ir import Attribute

from zeropoint.errors import Error
from zeropoint.ir.mapped import RECENT_PAGES, mapping
from zeropoint.ir.tensors import Array, UnheldType, booleans, dtype_element, element_dtype, element_of

INLINE_ELEMENTS = 64
"""The largest number of elements that a constant inside the IR may have."""

ElementsAttr = DenseIntOrFPElementsAttr | DenseResourceAttr
Fact = TypeVar("Fact")


Computed = Callable[[], Array]
"""Computes an array from another that takes less memory or is held anyway: reals from stored integers, a transpose."""
COMPUTED_BYTES = 1 << 20
"""Arrays of fewer bytes are stored, not computed again."""


class RecentArrays:
    """Caches the computed arrays that were read last, by a key, up to `most` bytes. Calls are thread-safe."""

    def __init__(self, most: int):
        self._most, self._held = most, 0
        self._lock = threading.Lock()
        self._arrays: OrderedDict[Hashable, Array] = OrderedDict()

    def get(self, key: Hashable, computed: Computed) -> Array:
        """The flat array of a key, computed if it is not in the cache. A key, such as a handle, identifies its
        content."""
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
                return self._arrays[key]
        array = _frozen(computed().reshape(-1))
        self.keep(key, array)
        return array

    def keep(self, key: Hashable, array: Array) -> None:
        """Put an array that was just computed into the cache."""
        with self._lock:
            if key not in self._arrays:
                self._arrays[key] = array
                self._held += array.nbytes
            while self._held > self._most and self._arrays:
                self._held -= self._arrays.popitem(last=False)[1].nbytes


RECENT_ARRAYS = RecentArrays(32 << 20)


class MissingWeights(Error, KeyError, ValueError):
    """A handle has no array."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


class ForeignWeights(Error, ValueError):
    """An array does not fit the type at the use of its handle."""


def _is_unchanging(array: Array) -> bool:
    """Whether an array is all of a `bytes` object, such as a tensor of a file, which cannot be written to."""
    found: object = array
    while isinstance(found, np.ndarray):
        found = cast("object", found.base)
    return isinstance(found, bytes) and len(found) == array.nbytes


def _frozen(array: Array) -> Array:
    view = array.view(np.ndarray)  # NumPy computes more slowly with np.memmap than with plain arrays
    view.flags.writeable = False
    return view


class Weights(Mapping[str, Array]):
    """Maps handles to flat, read-only arrays. The type at the handle's use gives the shape.

    `file` is the file that error messages name for missing arrays.
    """

    def __init__(self, arrays: Mapping[str, Array] | None = None, file: Path | None = None):
        self.file = file
        flat = {key: array.reshape(-1) for key, array in (arrays or {}).items()}
        self._arrays: dict[str, Array | Computed] = {key: _frozen(array) for key, array in flat.items()}
        self._facts: dict[Hashable, Any] = {}

    def __getitem__(self, handle: str) -> Array:
        held = self._arrays[handle]
        if callable(held):
            return RECENT_ARRAYS.get(handle, held)
        array: Array = held
        RECENT_PAGES.read(array)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def copy(self) -> Weights:
        """A new mapping to the same arrays."""
        copied = Weights(file=self.file)
        copied._arrays, copied._facts = dict(self._arrays), self._facts
        return copied

    @property
    def held_bytes(self) -> int:
        """The bytes of all arrays, without those that are computed at look-up."""
        return sum(held.nbytes for held in self._arrays.values() if not callable(held))

    def keep_only(self, handles: Container[str]) -> None:
        """Drop the arrays of other handles."""
        self._arrays = {handle: array for handle, array in self._arrays.items() if handle in handles}

    def take(self, other: Weights) -> None:
        """Add the arrays of other weights. Equal handles have equal content."""
        self._arrays = {**other._arrays, **self._arrays}

    def add(self, array: Array, again: Computed | None = None) -> str:
        """Keep `array` and return its handle; the handle depends on dtype and content only.

        If `again` computes a large array, only `again` is kept. A mapped array is kept as it is, because it takes no
        memory.
        """
        flat = np.ascontiguousarray(array).reshape(-1)
        digest = hashlib.sha256(flat.dtype.name.encode())
        digest.update(flat.view(np.uint8).data)
        handle = f"w{digest.hexdigest()[:20]}"
        if handle not in self._arrays and mapping(flat) is not None:
            self._arrays[handle] = _frozen(flat)
        elif handle not in self._arrays and again is not None and flat.nbytes >= COMPUTED_BYTES:
            self._arrays[handle] = again
            RECENT_ARRAYS.keep(handle, _frozen(flat))
        elif handle not in self._arrays:
            shared = (flat.base is not None or flat is array) and not _is_unchanging(flat)
            self._arrays[handle] = _frozen(flat.copy() if shared else flat)
        RECENT_PAGES.read(flat)
        return handle

    def computed_bytes(self, attribute: Attribute) -> int:
        """The size in bytes of the array of an elements attribute, if it is computed at look-up; otherwise 0."""
        if not isinstance(attribute, DenseResourceAttr) or not callable(
            self._arrays.get(attribute.resource_handle.data)
        ):
            return 0
        return math.prod(attribute.type.get_shape()) * element_dtype(element_of(attribute.type)).itemsize

    def only(self, attribute: Attribute) -> Weights:
        """Weights with the array of one elements attribute only, for a function that computes another array from it."""
        found = Weights(file=self.file)
        if isinstance(attribute, DenseResourceAttr) and (handle := attribute.resource_handle.data) in self._arrays:
            found._arrays[handle] = self._arrays[handle]
        return found

    def fact(self, attribute: Attribute, key: Hashable, found: Callable[[], Fact]) -> Fact:
        """What `found` computes from the array of an elements attribute: only once by `key` in all copies of these
        weights, because the content of a handle stays."""
        if not isinstance(attribute, DenseResourceAttr):
            return found()
        place = attribute, key
        if place not in self._facts:
            self._facts[place] = found()
        return cast("Fact", self._facts[place])

    def missing(self, handle: str) -> MissingWeights:
        """The error for a handle without an array."""
        where = "the .safetensors file beside it"
        if self.file is not None:
            where = f"{self.file}, which {'has none of that name' if self.file.exists() else 'does not exist'}"
        return MissingWeights(
            f"found dense_resource<{handle}> with no data, expected it in the text's resource section or in {where}"
        )

    def attribute(
        self, array: Array, element_type: Attribute | None = None, again: Computed | None = None
    ) -> ElementsAttr:
        """`array` as an elements attribute: inline up to 64 elements, by handle above.

        `element_type` is needed if the dtype does not determine it (i4 in 8-bit containers). `again` is that of `add`.
        """
        array = np.asarray(array)
        element_type = dtype_element(array.dtype) if element_type is None else element_type
        tensor = cast("TensorType[Any]", TensorType(element_type, array.shape))
        if array.size > INLINE_ELEMENTS:
            return DenseResourceAttr(StringAttr(self.add(array, again)), tensor)
        return DenseIntOrFPElementsAttr(tensor, BytesAttr(np.ascontiguousarray(array).tobytes()))

    def array(self, attribute: Attribute) -> Array:
        """The read-only array of an elements attribute, in its shape.

        Raises MissingWeights if the handle is unknown, ForeignWeights if its array does not fit, TypeError if the
        attribute is not an elements attribute.
        """
        if isinstance(attribute, DenseResourceAttr):
            handle = attribute.resource_handle.data
            if handle not in self._arrays:
                raise self.missing(handle)
            return _shaped(self[handle], attribute)
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            return inline_array(cast("DenseIntOrFPElementsAttr", attribute))
        raise TypeError(f"found {attribute}, expected dense elements")


def _shaped(array: Array, use: DenseResourceAttr) -> Array:
    shape, expected = use.type.get_shape(), element_dtype(element_of(use.type))
    if array.dtype == np.uint8 and expected.kind not in "iub" and array.size % expected.itemsize == 0:
        array = array.view(expected)  # safetensors files hold narrow floats and complex numbers as bytes
    if array.size != math.prod(shape) or array.itemsize != expected.itemsize:
        raise ForeignWeights(
            f"found {array.size} elements of {array.dtype} behind dense_resource<{use.resource_handle.data}>, expected "
            f"{math.prod(shape)} of {expected}; these are the weights of another program"
        )
    if expected.kind == "b":
        array = _booleans(array)
    return _in_shape(array, shape)


def _in_shape(array: Array, shape: tuple[int, ...]) -> Array:
    """The array in a shape of as many elements. Raises UnheldType for a rank above NumPy's maximum."""
    try:
        return array.reshape(shape)
    except ValueError as error:
        raise UnheldType(f"found a constant of rank {len(shape)}, expected one that NumPy holds: {error}") from error


def inline_array(attribute: DenseIntOrFPElementsAttr) -> Array:
    """The read-only array of an inline `dense<...>`, without a Python object per element."""
    dtype = element_dtype(attribute.type.element_type)
    array = np.frombuffer(attribute.data.data, dtype)
    return _in_shape(_booleans(array) if dtype.kind == "b" else array, attribute.type.get_shape())


def _booleans(array: Array) -> Array:
    """The array, read-only; booleans as bytes 0 and 1, because `dense<true>` holds the byte 255."""
    result = booleans(array)
    result.flags.writeable = False
    return result
