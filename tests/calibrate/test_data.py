"""Reading samples: every layout that is accepted, and one line for everything that is not."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import re
import tracemalloc
import zipfile
from operator import length_hint

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import Float16Type, IntegerType, TensorType, f32, i1

from zeropoint.calibrate import DataError, samples
from zeropoint.ir.program import Port
from zeropoint.ir.quant import Storage, UniformQuantizedType

N = 5
X = Port("x", TensorType(f32, [1, 2, 3]))
IDS = Port("ids", TensorType(IntegerType(32), [1, 4]))
PAIR = Port("x", TensorType(f32, [2, 3]))
SCALAR = Port("t", TensorType(f32, []))
DATA = np.arange(N * 6, dtype=np.float32).reshape(N, 2, 3) / 7


def taken(source, *ports):
    return list(samples(source, ports or [X]))


def npz(tmp_path, name="data.npz", *, compressed=False, **arrays):
    path = tmp_path / name
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


def npy_folder(tmp_path, **arrays):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


SOURCES = {
    "npz": npz,
    "compressed npz": lambda tmp_path, **arrays: npz(tmp_path, compressed=True, **arrays),
    "folder of npy": npy_folder,
    "dict": lambda tmp_path, **arrays: arrays,
}
LAYOUTS = {
    "rows in place of the batch axis": {"x": DATA},
    "rows before the batch axis": {"x": DATA[:, np.newaxis]},
    "an array a sample": {f"x_{i}": DATA[i][np.newaxis] for i in range(N)},
    "an array a sample without the batch axis": {f"x_{i}": DATA[i] for i in range(N)},
    "Fortran order": {"x": np.asfortranarray(DATA)},
    "big endian": {"x": DATA.astype(">f4")},
    "labels beside": {"labels": np.arange(N), "x": DATA, "y": np.ones(3)},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_layout_in_every_source_gives_the_same_samples(tmp_path, source, layout):
    stream = samples(SOURCES[source](tmp_path, **LAYOUTS[layout]), [X])
    assert len(stream) == N
    for _ in range(2):  # it starts anew
        found = list(stream)
        assert [set(sample) for sample in found] == [{"x"}] * N
        for index, sample in enumerate(found):
            assert sample["x"].shape == (1, 2, 3)
            assert sample["x"].dtype == np.float32
            assert sample["x"].dtype.isnative
            assert np.array_equal(sample["x"][0], DATA[index])


def test_an_array_a_sample_is_in_the_order_of_the_numbers(tmp_path):
    arrays = {f"x_{i}": np.full((1, 2, 3), i, np.float32) for i in range(12)}
    found = taken(npz(tmp_path, **dict(sorted(arrays.items()))))
    assert [sample["x"][0, 0, 0] for sample in found] == list(range(12))


def test_a_batch_of_several_takes_several_rows(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    for source in (npz(tmp_path, x=rows), npz(tmp_path, x=rows.reshape(2, 2, 3))):
        found = taken(source, PAIR)
        assert [sample["x"].tolist() for sample in found] == rows.reshape(2, 2, 3).tolist()


def test_scalars_have_a_value_a_sample(tmp_path):
    found = taken(npz(tmp_path, t=np.float32([1, 2, 3])), SCALAR)
    assert [(sample["t"].shape, float(sample["t"])) for sample in found] == [((), 1.0), ((), 2.0), ((), 3.0)]


def test_inputs_may_be_laid_out_differently(tmp_path):
    ids = np.arange(N * 4, dtype=np.int32).reshape(N, 4)
    path = npz(tmp_path, x=DATA[:, np.newaxis], **{f"ids_{i}": ids[i] for i in range(N)})
    found = taken(path, X, IDS)
    assert [sample["ids"][0].tolist() for sample in found] == ids.tolist()
    assert [list(sample) for sample in found] == [["x", "ids"]] * N


@pytest.mark.parametrize("compressed", [False, True])
def test_an_npz_is_opened_once_however_many_arrays_and_samples_are_read(tmp_path, monkeypatch, compressed):
    path = npz(tmp_path, compressed=compressed, **{f"x_{i}": DATA[i] for i in range(N)})
    opened = []
    made = zipfile.ZipFile.__init__
    monkeypatch.setattr(
        zipfile.ZipFile, "__init__", lambda self, file, *given: (opened.append(file), made(self, file, *given))[1]
    )
    found = samples(path, [X])
    for _ in range(2):
        np.testing.assert_array_equal([sample["x"][0] for sample in found], DATA)
    assert opened.count(path) == 1
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal([sample["x"][0] for sample in again], DATA)
    assert opened.count(path) == 2


def test_hundreds_of_npz_are_not_open_at_once(tmp_path):
    open_before = len(os.listdir("/proc/self/fd"))
    paths = [npz(tmp_path, f"{i}.npz", x=DATA[:1] + i) for i in range(200)]
    found = samples(paths, [X])
    streams = [iter(found) for _ in range(3)]
    for i in range(200):
        for stream in streams:
            np.testing.assert_array_equal(next(stream)["x"][0], DATA[0] + i)
    assert len(os.listdir("/proc/self/fd")) - open_before < 100
    del found, streams, stream
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) - open_before <= 1


def test_several_npz_follow_each_other(tmp_path):
    paths = [npz(tmp_path, f"{i}.npz", x=DATA[i : i + 2]) for i in (0, 2)]
    for source in (paths, [str(path) for path in paths], tmp_path):
        stream = samples(source, [X])
        assert len(stream) == 4
        assert [sample["x"][0, 0, 0] for sample in stream] == DATA[:4, 0, 0].tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_other_floats_are_converted(dtype):
    (first, *_) = taken({"x": DATA.astype(dtype)})
    assert first["x"].dtype == np.float32
    assert np.array_equal(first["x"][0], DATA[0].astype(dtype).astype(np.float32))


def test_integers_are_converted_where_they_fit():
    found = taken({"ids": np.arange(8, dtype=np.int64).reshape(2, 4)}, IDS)
    assert [sample["ids"].dtype for sample in found] == [np.int32] * 2
    with pytest.raises(DataError, match="sample 1: input 'ids': found int64 values that int32 cannot hold"):
        taken({"ids": np.int64([[0, 1, 2, 3], [0, 1, 2, 2**40]])}, IDS)


def test_an_input_of_a_quantized_type_takes_its_storage():
    port = Port("q", TensorType(UniformQuantizedType.per_layer(Storage.of("i8"), 0.5), [1, 2]))
    (sample,) = taken({"q": np.int8([[-128, 127]])}, port)
    assert sample["q"].tolist() == [[-128, 127]]
    with pytest.raises(DataError, match="found float32 data, expected int8"):
        taken({"q": np.float32([[0, 1]])}, port)


# From Python: iterables of dicts.


def test_an_iterable_of_dicts_is_a_stream_and_never_held():
    produced = 0

    def generate():
        nonlocal produced
        for index in range(3):
            produced += 1
            yield {"x": DATA[index].astype(np.float64), "label": index}

    stream = samples(generate(), [X])
    assert produced == 0
    iterator = iter(stream)
    first = next(iterator)
    assert produced == 1
    assert set(first) == {"x"}
    assert first["x"].shape == (1, 2, 3)
    assert len(list(iterator)) == 2


def test_an_iterable_says_its_length_where_it_knows_it():
    dicts = [{"x": DATA[0]}] * 3
    assert length_hint(samples(dicts, [X]), -1) == 3
    assert length_hint(samples((item for item in dicts), [X]), -1) == -1


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "data: found no samples; expected at least one"),
        ([{"x": DATA[0]}, {"y": 1}], "data: sample 1: found 'y'; expected 'x'; name each array after its input"),
        ([np.zeros(3)], "data: sample 0: input 'x': found shape 3, expected nx2x3 or nx1x2x3 for n samples"),
        ([{"x": DATA[0].T}], "data: sample 0: input 'x': found shape 3x2, expected"),
        (["text"], "data: sample 0: found str; expected an array for 'x', a dict with it, or a tuple with it first"),
        ([DATA[:1], ()], "data: sample 1: found tuple; expected an array for 'x'"),
        ([{"x": np.uint8(DATA[0])}], "data: sample 0: input 'x': found uint8 data, expected float32; convert it"),
    ],
)
def test_an_iterable_that_does_not_fit_is_an_error(items, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}"):
        list(samples(iter(items), [X]))


class Tensor:
    """What PyTorch's tensors have and arrays do not."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def detach(self):
        return self

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return self.array


class Trained(Tensor):
    """A tensor that requires gradients: PyTorch makes an array of it only after `detach`."""

    def detach(self):
        return Tensor(self.array)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


class MapStyle:
    """A Dataset of PyTorch: items by number, and no IndexError at the end."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return DATA[index % N], index


LABELS = np.arange(N)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(DATA, id="an array"),
        pytest.param(Tensor(DATA), id="a tensor"),
        pytest.param({"x": Tensor(DATA), "label": LABELS}, id="a dict of tensors"),
        pytest.param({"x": Trained(DATA)}, id="a dict of tensors that require gradients"),
        pytest.param({f"x_{n}": Trained(image) for n, image in enumerate(DATA)}, id="a tensor for each sample"),
        pytest.param(list(DATA), id="arrays"),
        pytest.param([Tensor(image) for image in DATA], id="tensors"),
        pytest.param([(image, 7) for image in DATA], id="tuples with a label"),
        pytest.param([({"x": image}, 7) for image in DATA], id="dicts with a label"),
        pytest.param([{"x": image.tolist(), "label": 7} for image in DATA], id="lists of numbers"),
        pytest.param([image.tolist() for image in DATA], id="lists of numbers without a name"),
        pytest.param([DATA[:2], DATA[2:]], id="batches of different sizes"),
        pytest.param([(DATA[:2, np.newaxis], LABELS[:2]), (DATA[2:, np.newaxis], LABELS[2:])], id="whole batches"),
        pytest.param([{"x": Tensor(DATA), "label": LABELS}], id="one batch"),
        pytest.param(lambda: iter(DATA), id="a function"),
        pytest.param(MapStyle(), id="a map-style dataset"),
    ],
)
def test_every_form_that_python_data_has_gives_the_same_samples(source):
    stream = samples(source, [X])
    for _ in range(2):  # each starts anew
        found = list(stream)
        assert [sample["x"].shape for sample in found] == [(1, 2, 3)] * N
        np.testing.assert_array_equal(np.concatenate([sample["x"] for sample in found]), DATA)


def test_inputs_are_told_apart_by_position():
    ports = [Port("a", TensorType(f32, [1, 2])), Port("b", TensorType(f32, [1]))]
    a, b = np.array([[1, 2], [3, 4]], np.float32), np.array([[5], [6]], np.float32)
    for source in (
        [(a, b, LABELS)],
        [((a, b), LABELS)],
        [(a[n], b[n]) for n in range(2)],
        [[a[n], b[n]] for n in (0, 1)],
    ):
        found = list(samples(source, ports))
        np.testing.assert_array_equal(np.stack([sample["a"][0] for sample in found]), a)
        np.testing.assert_array_equal(np.stack([sample["b"] for sample in found]), b)
    with pytest.raises(DataError, match="found one array; expected a dict with 'a', 'b'"):
        samples(a, ports)
    with pytest.raises(DataError, match="sample 0: found 1 values; expected one for each of 'a', 'b'"):
        list(samples([(a,)], ports))
    with pytest.raises(DataError, match="sample 0: found 2 for 'a', 1 for 'b'; expected the same number of samples"):
        list(samples([(a, b[:1])], ports))


@pytest.mark.parametrize(
    ("shape", "expected", "fix"),
    [
        ((9, 8, 6, 3), [1, 3, 8, 6], "its channels are last, expected first: use .transpose(0, 3, 1, 2)"),
        ((9, 3, 8, 6), [1, 8, 6, 3], "its channels are first, expected last: use .transpose(0, 2, 3, 1)"),
        ((9, 8, 6, 4), [1, 3, 8, 6], "it has another number of elements: resize, crop or pad it"),
        ((9, 3, 6, 8), [1, 3, 8, 6], "reshape it"),
        ((9, 144), [1, 3, 8, 6], "reshape it"),
        ((16, 3, 6, 8), [4, 3, 8, 6], "reshape it"),
    ],
)
def test_channels_in_the_wrong_place_are_to_be_transposed_and_not_reshaped(shape, expected, fix):
    with pytest.raises(DataError, match=re.escape(fix)):
        samples(np.zeros(shape, np.float32), [Port("x", TensorType(f32, expected))])


# Errors of files, folders and dicts: all before the first sample.


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"no\.npz: found no such file; expected an \.npz file or a folder of \.npy"):
        samples(tmp_path / "no.npz", [X])


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "x.csv").write_text("1,2")
    with pytest.raises(DataError, match=r"found a file with suffix '\.csv'; expected \.npz"):
        samples(tmp_path / "x.csv", [X])
    (tmp_path / "bare").write_text("1,2")
    with pytest.raises(DataError, match=r"bare: found a file with no suffix; expected \.npz"):
        samples(tmp_path / "bare", [X])
    (tmp_path / "x.npz").write_text("not a zip file")
    with pytest.raises(DataError, match=r"x\.npz: found a truncated, damaged or foreign file"):
        samples(tmp_path / "x.npz", [X])


@pytest.mark.parametrize("compressed", [False, True])
def test_a_truncated_or_damaged_npz(tmp_path, compressed):
    path = npz(tmp_path, compressed=compressed, x=np.random.default_rng(0).random((N, 2, 3), np.float32))
    whole, before = path.read_bytes(), taken(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="found a truncated, damaged or foreign file"):
        samples(path, [X])
    expected = [sample["x"].tobytes() for sample in before]
    for position in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[position] ^= 0x5A
        path.write_bytes(damaged)
        found = None
        with contextlib.suppress(DataError):  # nothing else is raised
            found = [sample["x"].tobytes() for sample in taken(path)]
        assert found in (None, expected)  # a byte may mean nothing, as those of a time stamp


def test_an_npz_of_other_things(tmp_path):
    path = npz(tmp_path, x=np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(DataError, match=r"x\.npy: found Python objects, expected numbers"):
        samples(path, [X])
    import zipfile

    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x.npy", "hello")
    with pytest.raises(DataError, match=r"x\.npy: found no NumPy array, expected one written by numpy\.save"):
        samples(tmp_path / "text.npz", [X])


def test_an_empty_folder_and_a_damaged_npy(tmp_path):
    with pytest.raises(DataError, match=r"found a folder with no \.npy and no \.npz file; expected x\.npy"):
        samples(tmp_path, [X])
    np.save(tmp_path / "x.npy", DATA)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-10])
    with pytest.raises(DataError, match=r"x\.npy: found a truncated file"):
        samples(tmp_path, [X])
    (tmp_path / "x.npy").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"x\.npy: found no NumPy array"):
        samples(tmp_path, [X])


NAN = DATA.copy()
NAN[3, 0, 1], NAN[4, 1, 1] = np.nan, np.inf
BAD = {
    "names": ({"image": DATA, "other": DATA}, "found 'image', 'other'; expected 'x'; name each array after"),
    "nothing": ({}, "found nothing; expected 'x'"),
    "shape": ({"x": np.zeros((N, 2, 4), np.float32)}, "input 'x': found shape 5x2x4, expected nx2x3 or nx1x2x3 for n"),
    "no axis": ({"x": np.float32(1)}, "input 'x': found shape () (a scalar), expected nx2x3 or nx1x2x3"),
    "one shape of many": (
        {"x_0": DATA[0], "x_1": DATA[:2]},
        "sample 1: input 'x': found shape 2x2x3, expected 1x2x3; it has another number of elements: resize, crop",
    ),
    "integers": (
        {"x": DATA.astype(np.uint8)},
        "input 'x': found uint8 data, expected float32; convert it, and scale it",
    ),
    "booleans": ({"x": DATA > 1}, "input 'x': found bool data, expected float32"),
    "complex": ({"x": DATA.astype(np.complex64)}, "input 'x': found complex64 data, expected float32"),
    "text": ({"x": np.full((N, 2, 3), "a")}, "input 'x': found <U1 data, expected float32"),
    "no samples": ({"x": DATA[:0]}, "found no samples; expected at least one"),
    "gap": ({"x_0": DATA[0], "x_2": DATA[2]}, "found no 'x_1' but 'x_2'; expected numbers without gaps"),
    "not from 0": ({"x_1": DATA[0]}, "found no 'x_0' but 'x_1'; expected numbers without gaps"),
    "NaN": ({"x": NAN}, "sample 3: input 'x': found 1 NaN and 0 infinite values in float32, expected finite ones"),
    "infinity": ({"x": NAN[4:]}, "sample 0: input 'x': found 0 NaN and 1 infinite values in float32"),
    "mask": (
        {"x": np.where(DATA < 1, np.float32(-np.inf), 0)},
        "found 0 NaN and 6 infinite values in float32, expected finite ones; remove the sample or repair it; in a "
        "mask, write a number just below the scores, such as -100, instead of -inf",
    ),
    "past f32": ({"x": DATA.astype(np.float64) * 1e300}, "sample 0: input 'x': found 0 NaN and 5 infinite values in"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("source", SOURCES)
def test_what_does_not_fit_is_one_line_before_the_first_sample(tmp_path, source, case):
    arrays, message = BAD[case]
    if source == "folder of npy" and not arrays:
        message = "found a folder with no .npy and no .npz file; expected x.npy"
    given = SOURCES[source](tmp_path, **arrays)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        samples(given, [X])
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("data: " if source == "dict" else str(given))


def test_inputs_with_different_numbers_of_samples(tmp_path):
    path = npz(tmp_path, x=DATA, ids=np.zeros((N - 1, 4), np.int32))
    with pytest.raises(DataError, match="found 5 for 'x', 4 for 'ids'; expected the same number of samples"):
        samples(path, [X, IDS])


def test_rows_that_do_not_fill_a_batch(tmp_path):
    path = npz(tmp_path, x=np.arange(15, dtype=np.float32).reshape(5, 3))
    assert [len(sample["x"]) for sample in samples(path, [PAIR])] == [2, 2]
    *_, last = samples(path, [PAIR], fill=True)
    assert last["x"].tolist() == [[12, 13, 14], [12, 13, 14]]
    with pytest.raises(DataError, match="found 1 samples, expected 2 or more: the model takes 2 at a time"):
        samples(npz(tmp_path, x=np.zeros((1, 3), np.float32)), [PAIR])


def test_rows_of_any_batches_are_regrouped():
    rows = np.arange(21, dtype=np.float32).reshape(7, 3)
    for items in (
        list(rows),
        [rows[:1], rows[1:6], rows[6:]],
        [(rows[:3], 5), (rows[3:], 6)],
        [{"x": rows[:2]}, {"x": rows[2:]}],
    ):
        found = [sample["x"] for sample in samples(items, [PAIR])]
        np.testing.assert_array_equal(np.concatenate(found), rows[:6])
    with pytest.raises(DataError, match="found 1 samples, expected 2 or more"):
        list(samples([rows[0]], [PAIR]))


def test_a_missing_input_is_named_among_all_that_are_expected(tmp_path):
    with pytest.raises(DataError, match="found 'x'; expected 'x', 'ids'; name each array"):
        samples(npz(tmp_path, x=DATA), [X, IDS])


def test_an_iterator_that_was_used_up_says_what_to_pass_instead():
    items = iter([DATA[0]])
    assert len(list(samples(items, [X]))) == 1
    with pytest.raises(DataError, match=r"found no samples; .*; an iterator can be read only once: pass"):
        list(samples(items, [X]))
    with pytest.raises(DataError, match=r"found no samples; expected at least one$"):
        list(samples([], [X]))


def test_many_names_that_do_not_match_are_counted(tmp_path, caplog):
    for number in range(64):
        np.save(tmp_path / f"s{number:02}.npy", DATA[0])
    few = "'s00', 's01', 's02', 's03', 's04', 's05' and 58 more"
    expected = f"{tmp_path}: found {few}; expected 'x'; name each array after its input, or x_0, x_1, ... if each is"
    with pytest.raises(DataError, match=re.escape(expected)):
        samples(tmp_path, [X])
    ports = [Port(f"past_{number}", TensorType(f32, [2])) for number in range(20)] + [X]
    given = {port.name: np.zeros((3, 2), np.float32) for port in ports[:-1]}
    with pytest.raises(DataError, match=r"and 14 more; expected 'x', 'past_0', .* and 15 more; name each"):
        samples(given, ports)
    samples({"x": DATA, **{f"other_{number}": np.zeros((N, 4), np.float32) for number in range(9)}}, [X])
    assert "'other_5' and 3 more, which no input reads; the inputs are 'x'" in caplog.text


def test_floats_for_booleans_and_integers_are_errors():
    with pytest.raises(DataError, match=r"found float32 data, expected int32; convert it with \.astype\('int32'\)"):
        samples({"ids": np.zeros((1, 4), np.float32)}, [IDS])
    with pytest.raises(DataError, match="found uint8 data, expected bool"):
        samples({"m": np.zeros((1, 4), np.uint8)}, [Port("m", TensorType(i1, [1, 4]))])


def test_values_that_f16_cannot_hold_are_errors():
    with pytest.raises(DataError, match="found 0 NaN and 1 infinite values in float16"):
        samples({"h": np.float32([[1, 1e6]])}, [Port("h", TensorType(Float16Type(), [1, 2]))])


def test_a_number_in_the_name_of_another_input_is_not_a_sample_of_this_one():
    first, second = Port("x", TensorType(f32, [2])), Port("x_0", TensorType(f32, [2]))
    assert len(taken({"x": np.zeros((3, 2), np.float32), "x_0": np.ones((3, 2), np.float32)}, first, second)) == 3
    with pytest.raises(DataError, match="found 'x_0'; expected 'x', 'x_0'"):
        samples({"x_0": np.ones((3, 2), np.float32)}, [first, second])


@pytest.mark.parametrize("compressed", [False, True])
def test_memory_does_not_grow_with_the_file(tmp_path, compressed):
    port = Port("x", TensorType(f32, [1, 1000]))
    path = npz(tmp_path, compressed=compressed, x=np.ones((1000, 1000), np.float32))  # 4 MB
    tracemalloc.start()
    assert sum(1 for _ in samples(path, [port])) == 1000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000


def test_the_arrays_given_are_not_changed():
    data = DATA.copy()
    for sample in samples({"x": data}, [X]):
        assert sample["x"].dtype == np.float32
    assert data.tobytes() == DATA.tobytes()


def test_a_npy_with_any_byte_of_its_header_damaged(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, DATA)
    whole = path.read_bytes()
    for position in range(128):
        for flip in (0x01, 0x5A):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            path.write_bytes(damaged)
            with contextlib.suppress(DataError):  # nothing else is raised
                assert taken(tmp_path)[0]["x"].shape == (1, 2, 3)


def test_tensors_without_elements_are_counted(tmp_path):
    port = Port("x", TensorType(f32, [1, 0, 3]))
    for source in (npz(tmp_path, x=np.zeros((4, 0, 3), np.float32)), npy_folder(tmp_path, x=np.zeros((4, 0, 3), "f4"))):
        assert [sample["x"].shape for sample in samples(source, [port])] == [(1, 0, 3)] * 4
