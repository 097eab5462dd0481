"""The formal models in docs/models, searched by spin: `scripts/model`.

tests/unit runs the small configurations and each planted fault; the large ones take minutes.
"""
