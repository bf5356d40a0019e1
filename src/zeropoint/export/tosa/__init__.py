"""TOSA: `.tosa.mlir` files, the text of MLIR's TOSA dialect."""
