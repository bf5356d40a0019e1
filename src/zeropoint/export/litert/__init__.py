"""LiteRT: `.tflite` files."""
