"""The LLVM text of kernels. A kernel is a frozen dataclass with everything that its code depends on.

| kernels | files |
|---|---|
| convolutions, products with constants | `contraction`; `arithmetic` and `blockwise`, `scaled_rows`, `dequantized` |
| their end, from accumulators to results | `requantize` with `double_rounding`, `rounding` (all), `computed`, `sum` |
| products of two activations | `batched` |
| depthwise convolutions, sums over windows | `depthwise`, for few channels `depthwise_lanes`; `depthwise_floats` |
| loop nests | `loops` |
| rows, such as softmax and layer norm | `rows`; what follows what: `row_kernel`, `grouped_rows`, `pipelined_rows` |
| images at the edges of a program | `planes`, `border` |
| ops with regions | `folds` (reductions), `sorting`, `placement` (scatter), `control` (loops, branches) |

How work is split: `contraction_shape`, `depthwise_shape`, `row_shape`, `sweeps`, `tiles`.

Nests, rows and regions compute scalars (`elements`), which `access` emits for vectors of elements. The instructions of
scalars: `scalars`, `integers`, `functions`, `half_precision`, `quantize`, `quotient`, `finite`, `combining`, `table`,
`interpolation`, `unpack`, and for pairs of 16-bit numbers `word_scalars` with `words`, `interleaved`, `pair_sums`.
Before code is written, scalars are rewritten to forms that take fewer instructions (`bodies`): `known_scalars`,
`fewer_steps`, `finite_extremes`, `high_products`, `pair_sums`, `normalized` with `row_steps`.
"""
