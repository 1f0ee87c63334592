"""Training: a model learns from data.

A :class:`Trainer` has the parameters of a model and the state of an optimiser, and changes both with each step::

    trainer = ovolo.training.Trainer("digits.onnx", dims={"N": 32}, from_scratch=True)
    losses = trainer.fit({"image": images, "labels": labels}, epochs=8, rate=0.01)
    session = ovolo.InferenceSession(trainer.model())

:func:`grad` returns one step as a graph.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from . import _model, _ovolo


def _wanted(*, loss, optimizer, numbers, freeze, lazy, derivatives, of, fixed_statistics, dropout, own_dropout):
    """What a step consists of, as the native part reads it."""
    if not isinstance(numbers or {}, Mapping):
        raise TypeError(f"`numbers` is a dictionary from the optimiser's numbers to values, not {numbers!r}")
    if optimizer is None and numbers:
        raise ValueError("`numbers` are those of an optimiser, and there is none")
    return {
        "loss": loss,
        "optimizer": optimizer,
        "numbers": {name: float(value) for name, value in (numbers or {}).items()},
        "freeze": [freeze] if isinstance(freeze, str) else _model.listed("freeze", freeze, "patterns"),
        "lazy": [lazy] if isinstance(lazy, str) else _model.listed("lazy", lazy, "patterns"),
        "derivatives": _model.paths("derivatives", derivatives),
        "of": of,
        "fixed_statistics": bool(fixed_statistics),
        "dropout": {pattern: float(ratio) for pattern, ratio in (dropout or {}).items()},
        "own_dropout": bool(own_dropout),
    }


def grad(
    model: str | os.PathLike | bytes | Any,
    *,
    loss: str = "cross-entropy",
    optimizer: str | None = None,
    numbers: Mapping[str, float] | None = None,
    freeze: str | Iterable[str] = (),
    lazy: str | Iterable[str] = (),
    derivatives: Iterable[str | os.PathLike] = (),
    of: str | None = None,
    fixed_statistics: bool = False,
    dropout: Mapping[str, float] | None = None,
    own_dropout: bool = True,
    **settings: Any,
) -> str:
    """Returns one step of training as a graph in text form, as ``ovolo grad`` writes it.

    Without an optimiser, the graph's outputs are the loss, the value that the loss takes, and the gradient with respect
    to each parameter by the parameter's name. Written to a file that ends with ``.ovolo``, it is a model as any other.
    The arguments are those of :class:`Trainer`.
    """
    wanted = _wanted(
        loss=loss, optimizer=optimizer, numbers=numbers, freeze=freeze, lazy=lazy, derivatives=derivatives,
        of=of, fixed_statistics=fixed_statistics, dropout=dropout, own_dropout=own_dropout,
    )
    file = _model.File(model)
    with file.named():
        return _ovolo.grad(_model.settings(file.path, **settings), wanted)


class Trainer:
    """A model that is trained: its parameters, and the state of an optimiser.

    Threads may share a trainer; its steps take turns.
    """

    def __init__(
        self,
        model: str | os.PathLike | bytes | Any,
        *,
        loss: str = "cross-entropy",
        optimizer: str = "adam",
        numbers: Mapping[str, float] | None = None,
        freeze: str | Iterable[str] = (),
        lazy: str | Iterable[str] = (),
        derivatives: Iterable[str | os.PathLike] = (),
        of: str | None = None,
        fixed_statistics: bool = False,
        dropout: Mapping[str, float] | None = None,
        own_dropout: bool = True,
        from_scratch: bool = False,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        """Compiles the step of a model: a path, bytes, or a ``ModelProto`` of the package onnx.

        ``loss``, ``optimizer``, ``freeze``, ``lazy``, ``derivatives``, ``of``, ``fixed_statistics`` and ``from_scratch`` are
        those of ``ovolo train``. ``numbers`` has numbers of the optimiser: ``{"beta1": 0.8}``. ``dropout`` has patterns of
        values with the share of their elements that is dropped: ``{"hidden*": 0.1}``; the ``Dropout`` nodes of the model
        drop elements as well, unless ``own_dropout=False``. ``seed`` decides random parameters, the order of the data, and
        what is dropped. Further keyword arguments are settings of :func:`ovolo.compile`, such as
        ``dims={"N": 32}`` for the size of a batch; a model with a size that is not bound is refused.
        """
        if optimizer is None:
            raise TypeError("`optimizer` is the name of an optimiser; `ovolo.training.grad` does without one")
        wanted = _wanted(
            loss=loss, optimizer=optimizer, numbers=numbers, freeze=freeze, lazy=lazy, derivatives=derivatives,
            of=of, fixed_statistics=fixed_statistics, dropout=dropout, own_dropout=own_dropout,
        )
        #: The number of epochs that :meth:`fit` has gone through, in this process or before a checkpoint.
        self.epochs = 0
        #: The seed of the order of the data.
        self.seed = _model.number("seed", seed)
        self._file = _model.File(model)
        with self._file.named():
            given = _model.settings(self._file.path, **settings)
            self._trainer = _ovolo.trainer(given, wanted, self.seed, bool(from_scratch))
        self._batch = {name: (ty, tuple(shape)) for name, (ty, shape) in self._trainer.batch().items()}

    @property
    def batch(self) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        """The element type and the shape of each array of a batch; the last one has the labels."""
        return dict(self._batch)

    def step(self, batch: Mapping[str, Any], rate: float = 0.001) -> float:
        """Changes parameters and state by one step along a batch, and returns the loss before it.

        ``batch`` has an array for each input of the model, and ``labels``. Numbers are converted to the model's types.
        ``rate`` is the learning rate.
        """
        for name in batch.keys() - self._batch.keys():
            raise _ovolo.InvalidArgument(f"the step takes no `{name}`; it takes {', '.join(self._batch)}")
        arrays = {name: _converted(name, batch[name], ty) for name, (ty, _) in self._batch.items() if name in batch}
        return self._trainer.step(arrays, float(rate))

    def fit(
        self,
        data: Mapping[str, Any],
        *,
        epochs: int = 1,
        rate: float = 0.001,
        progress: Callable[..., Any] | None = None,
    ) -> list[float]:
        """Goes through data, and returns the mean loss of each epoch.

        ``data`` has an array for each input of the model, and ``labels``, with a row for each example. Each epoch goes
        through the rows in another order, which ``seed`` decides: the one of ``ovolo train``. Rows that are left over by
        whole batches wait for the next epoch. ``progress`` makes a progress bar by the conventions of the package tqdm:
        ``progress=tqdm.auto.tqdm``.
        """
        data = {name: np.asarray(array) for name, array in data.items()}
        for name in self._batch.keys() - data.keys():
            raise _ovolo.InvalidArgument(f"the data have no `{name}`; they have {', '.join(data)}")
        rows, size = len(data["labels"]), self._batch["labels"][1][0]
        for name, array in data.items():
            if len(array) != rows:
                raise _ovolo.InvalidArgument(f"`{name}` has {len(array)} rows, and `labels` {rows}")
        if size > rows:
            raise _ovolo.InvalidArgument(f"the data have {rows} rows, and a batch {size}")
        count = _model.number("epochs", epochs)
        bar = progress(total=count * (rows // size), unit="step") if progress else None
        means = []
        try:
            for _ in range(count):
                order = _ovolo.order(rows, self.seed, self.epochs)
                losses = []
                for begin in range(0, rows - size + 1, size):
                    taken = order[begin : begin + size]
                    losses.append(self.step({name: array[taken] for name, array in data.items()}, rate))
                    if bar is not None:
                        bar.update(1)
                self.epochs += 1
                means.append(sum(losses) / len(losses))
        finally:
            if bar is not None:
                bar.close()
        return means

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters by name, as arrays of their own."""
        return self._trainer.parameters()

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """The running means and variances of batch norms, by name."""
        return self._trainer.statistics()

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The number of steps, and what the optimiser keeps of each parameter, by name."""
        return self._trainer.state()

    def replace(self, values: Mapping[str, Any]) -> None:
        """Replaces some parameters, statistics or states by arrays of the same types."""
        self._trainer.replace(dict(values))

    def save(self, path: str | os.PathLike) -> None:
        """Writes a checkpoint: parameters, statistics, state and progress. ``ovolo train --resume`` reads it too."""
        self._trainer.save(os.fspath(path), self.epochs, self.seed)

    def load(self, path: str | os.PathLike) -> None:
        """Goes on from a checkpoint, as if training had not been interrupted."""
        self.epochs, self.seed = self._trainer.load(os.fspath(path))

    def model(self) -> bytes:
        """Returns the model with the parameters of now, in the form in which it was given."""
        return self._trainer.model()

    def export(self, path: str | os.PathLike) -> None:
        """Writes the model with the parameters of now."""
        with open(path, "wb") as file:
            file.write(self.model())


def _converted(name, value, ty):
    """An array of a type, if its numbers can have that type."""
    array = np.asarray(value)
    if array.dtype.kind in "biu" or array.dtype.kind == ty.kind:
        return array.astype(ty, copy=False)
    raise _ovolo.InvalidArgument(f"`{name}` has elements {array.dtype}, and the step takes {ty}")
