"""Requests that come one by one, run together: for servers.

A :class:`Batcher` runs a session on a thread of its own. Requests that arrive while a run is in progress wait, and the
next run takes as many of them as fit. So an idle session answers at once, and a busy one answers several requests for
the price of one run::

    session = ovolo.InferenceSession("model.onnx", buckets={"N": [1, 2, 4, 8]})
    batcher = ovolo.batching.Batcher(session, "N", 8)
    scores, = await batcher.run({"image": image})

Requests are gathered along a dimension that is the first one of all inputs and outputs. Before requests of some types are
run together for the first time, the session must prove that no output depends on the rows of another request
(:meth:`ovolo.InferenceSession.separates`). Without a proof they are run one by one, and the logger ``ovolo`` says so.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ._ovolo import Error, InvalidArgument

#: How many forms of requests a batcher remembers.
FORMS = 1024


class Closed(Error):
    """The batcher was closed before the request came."""


class _Request:
    """The inputs of one caller, who waits for ``done``."""

    def __init__(self, feeds: Mapping[str, Any], dim: str | None) -> None:
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.feeds = {name: np.asarray(value) for name, value in feeds.items()} if dim else dict(feeds)
        #: The size of the dimension; 0 for a request that runs alone.
        self.rows = 0
        if dim and self.feeds and all(array.ndim for array in self.feeds.values()):
            rows = {array.shape[0] for array in self.feeds.values()}
            self.rows = rows.pop() if len(rows) == 1 else 0

        #: What requests that are run together have in common: names, element types, and shapes but for the dimension.
        self.form = None
        if self.rows:
            self.form = tuple((name, one.dtype.str, one.shape[1:]) for name, one in sorted(self.feeds.items()))


class Batcher:
    """Runs a session for the tasks of one event loop, several requests at a time.

    ``session`` is anything with the methods ``run``, ``get_inputs`` and ``get_outputs`` of an
    :class:`ovolo.InferenceSession`. If it has no method ``separates``, nothing is proved, and the caller must know that
    rows are independent. Without ``dim``, each request is a run of its own.
    """

    def __init__(self, session: Any, dim: str | None = None, rows: int = 1) -> None:
        """Prepares to gather requests along the dimension ``dim``, at most ``rows`` of it in one run.

        An :class:`ovolo.Error` if an input or an output does not have that dimension as its first one.
        """
        if dim is not None:
            for kind, values in (("input", session.get_inputs()), ("output", session.get_outputs())):
                for value in values:
                    if not value.shape or value.shape[0] != dim:
                        raise Error(
                            f"requests cannot be gathered along `{dim}`: the {kind} `{value.name}` has the shape "
                            f"{value.shape}, whose first dimension is another one"
                        )
        self._session = session
        self._dim = dim
        self._rows = rows
        #: Whether requests of a form may be run together, as far as that was asked.
        self._apart: dict[Any, bool] = {}
        self._waiting: deque[_Request] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ovolo-batcher")
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Returns the outputs for these inputs.

        What the session raises for a request reaches the caller of that request alone, also where several were run
        together.
        """
        if self._closed:
            raise Closed("the model is being unloaded")
        request = _Request(feeds, self._dim)
        self._waiting.append(request)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await request.done

    async def close(self) -> None:
        """Answers the requests that wait, and ends the thread. Later requests are refused."""
        self._closed = True
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    def _separates(self, form: Any, feeds: Mapping[str, np.ndarray]) -> bool:
        """Whether requests with such inputs may be run together. It is asked once for each form."""
        if form not in self._apart:
            if len(self._apart) >= FORMS:
                self._apart.clear()
            try:
                if hasattr(self._session, "separates"):
                    self._session.separates(self._dim, self._rows, feeds)
                self._apart[form] = True
            except InvalidArgument:  # The run of each request will say what is wrong with it.
                self._apart[form] = False
            except Error as why:
                self._apart[form] = False
                logging.getLogger("ovolo").warning("requests are run one by one: %s", why)
        return self._apart[form]

    async def _work(self) -> None:
        while self._waiting:
            batch = self._take()
            if batch:
                await self._answer(batch)

    def _take(self) -> list[_Request]:
        """Removes the requests of the next run from those that wait, in the order in which they came."""
        batch: list[_Request] = []
        rows = 0
        while self._waiting:
            request = self._waiting[0]
            if request.done.cancelled():  # The client has left.
                self._waiting.popleft()
                continue
            if batch and (request.form != batch[0].form or rows + request.rows > self._rows):
                break
            batch.append(self._waiting.popleft())
            rows += request.rows
            if request.form is None or not self._apart.get(request.form, True):
                break
        return batch

    async def _answer(self, batch: Sequence[_Request]) -> None:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._thread, self._together, batch)
        except Exception as why:
            if len(batch) == 1:
                if not batch[0].done.cancelled():
                    batch[0].done.set_exception(why)
                return
            # One of them is at fault, and the others must not suffer from it.
            for request in batch:
                await self._answer([request])
            return
        for request, answer in zip(batch, answers, strict=True):
            if not request.done.cancelled():
                request.done.set_result(answer)

    def _together(self, batch: Sequence[_Request]) -> list[list[Any]]:
        if len(batch) == 1:
            return [self._session.run(None, batch[0].feeds)]
        if not self._separates(batch[0].form, batch[0].feeds):
            return [self._session.run(None, one.feeds) for one in batch]
        feeds = {name: np.concatenate([one.feeds[name] for one in batch]) for name in batch[0].feeds}
        outputs = self._session.run(None, feeds)
        ends = np.cumsum([one.rows for one in batch])
        return [
            [output[end - one.rows : end] for output in outputs] for one, end in zip(batch, ends, strict=True)
        ]
