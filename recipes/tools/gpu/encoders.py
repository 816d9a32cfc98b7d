"""BERT and MPNet in PyTorch, with the weights that `pack.py` has packed."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from pack import unpack_tensors
from torch import nn

BUCKETS, FARTHEST = 32, 128  # relative positions of MPNet
SIZES = {
    "minilm": {"vocabulary": 30522, "width": 384, "layers": 6, "positions": 512, "epsilon": 1e-12},
    "mpnet": {"vocabulary": 30527, "width": 768, "layers": 12, "positions": 514, "epsilon": 1e-5},
}
NAMES = {  # ours -> Hugging Face's, of BERT and of MPNet
    "tokens": ("embeddings.word_embeddings", "embeddings.word_embeddings"),
    "positions": ("embeddings.position_embeddings", "embeddings.position_embeddings"),
    "segments": ("embeddings.token_type_embeddings", None),
    "norm": ("embeddings.LayerNorm", "embeddings.LayerNorm"),
    "relative": (None, "encoder.relative_attention_bias"),
    "query": ("attention.self.query", "attention.attn.q"),
    "key": ("attention.self.key", "attention.attn.k"),
    "value": ("attention.self.value", "attention.attn.v"),
    "output": ("attention.output.dense", "attention.attn.o"),
    "attention_norm": ("attention.output.LayerNorm", "attention.LayerNorm"),
    "wide": ("intermediate.dense", "intermediate.dense"),
    "narrow": ("output.dense", "output.dense"),
    "output_norm": ("output.LayerNorm", "output.LayerNorm"),
}


class Layer(nn.Module):
    """A post-norm Transformer layer with 12 heads."""

    def __init__(self, width, epsilon, dropout):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.attention_norm, self.output_norm = (nn.LayerNorm(width, epsilon) for _ in range(2))
        self.dropout = dropout

    def forward(self, x, bias):
        shape = (*x.shape[:2], 12, -1)
        query, key, value = (part(x).view(shape).transpose(1, 2) for part in (self.query, self.key, self.value))
        dropout = self.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout)
        x = self.attention_norm(x + self._drop(self.output(context.transpose(1, 2).flatten(2))))
        return self.output_norm(x + self._drop(self.narrow(F.gelu(self.wide(x)))))

    def _drop(self, x):
        return F.dropout(x, self.dropout, self.training)


class Encoder(nn.Module):
    """Token ids (B, T) and a mask (B, T), True for tokens, to vectors (B, T, width). MPNet has no segments."""

    def __init__(self, vocabulary, width, layers, positions, epsilon, dropout=0.0, relative=False):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.segments = None if relative else nn.Embedding(2, width)
        self.relative = nn.Embedding(BUCKETS, 12) if relative else None
        self.norm = nn.LayerNorm(width, epsilon)
        self.layers = nn.ModuleList(Layer(width, epsilon, dropout) for _ in range(layers))
        self.dropout = dropout

    def forward(self, ids, mask, segments=None):
        length = ids.shape[1]
        places = torch.arange(length, device=ids.device)
        bias = torch.zeros(mask.shape, dtype=torch.bfloat16, device=ids.device).masked_fill(~mask, -1e4)[:, None, None]
        if self.relative is not None:
            by_distance = self.relative(distance_buckets(places)).permute(2, 0, 1)[None]  # (1, H, T, T)
            bias = (bias + by_distance.detach()).to(torch.bfloat16)
            places = places + 2
        else:
            bias = bias.expand(-1, -1, length, -1)
        x = self.tokens(ids) + self.positions(places)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if segments is None else segments)
        x = F.dropout(self.norm(x), self.dropout, self.training)
        for layer in self.layers:
            x = layer(x, bias if x.device.type == "cuda" else bias.float())
        return x


def distance_buckets(places):
    """Numbers of the biases (T, T) of all pairs of positions: Raffel et al. (2020), section 2.1, as in T5."""
    distance = places[:, None] - places[None]  # query - key
    half, exact = BUCKETS // 2, BUCKETS // 4
    far = exact + (torch.log(distance.abs().clamp(min=1) / exact) / np.log(FARTHEST / exact) * (half - exact)).long()
    return half * (distance < 0) + torch.where(distance.abs() < exact, distance.abs(), far.clamp(max=half - 1))


def load_teacher(folder, dropout=0.0):
    """The encoder in `folder`, whose name is a key of SIZES."""
    mpnet = folder.name == "mpnet"
    encoder = Encoder(**SIZES[folder.name], dropout=dropout, relative=mpnet)
    with ThreadPoolExecutor() as pool:
        packed = list(pool.map(lambda path: unpack_tensors(path.read_bytes()), sorted(folder.glob("*.xz"))))
    tensors = {name: torch.from_numpy(value) for group in packed for name, value in group.items()}
    encoder.load_state_dict({name: tensors[published_name(name, mpnet)] for name in encoder.state_dict()})
    return encoder


def published_name(name, mpnet=False):
    """Hugging Face's name of one of our tensors, such as "layers.0.query.weight"."""
    *place, part, kind = name.split(".")
    layer = f"encoder.layer.{place[1]}." if place else ""
    return f"{layer}{NAMES[part][mpnet]}.{kind}"


def make_student(minilm, layers, rows, dropout=0.0):
    """Some layers of all-MiniLM-L6-v2, and the embeddings of some of its pieces."""
    student = Encoder(**SIZES["minilm"] | {"vocabulary": len(rows), "layers": len(layers)}, dropout=dropout)
    theirs, weights = minilm.state_dict(), {}
    for name in student.state_dict():
        source = name
        if name.startswith("layers."):
            _, layer, rest = name.split(".", 2)
            source = f"layers.{layers[int(layer)]}.{rest}"
        weights[name] = theirs[source][torch.as_tensor(rows)] if name == "tokens.weight" else theirs[source]
    student.load_state_dict(weights)
    return student


class Classifier(nn.Module):
    """Logits (B, 2) from the mean of an encoder's vectors over all tokens."""

    def __init__(self, encoder, width, dropout=0.1):
        super().__init__()
        self.encoder, self.head, self.dropout = encoder, nn.Linear(width, 2), dropout
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids, mask, segments=None):
        pooled = mean_of_tokens(self.encoder(ids, mask, segments), mask)
        return self.head(F.dropout(pooled, self.dropout, self.training)).float()


def mean_of_tokens(x, mask):
    mask = mask[..., None]
    return (x.float() * mask).sum(1) / mask.sum(1)
