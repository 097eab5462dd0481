"""The step against a reference model: model.py is the specification, histories.py the input."""
