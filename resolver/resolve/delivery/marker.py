"""The marker: it names the last delivered batch, and is committed in that batch's transaction.

`marker_group.py` reads it from Kafka, and sends it in the producer's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import MarkerMismatch

#: Value of `needs` once halves were fast. A version from before fast commits refuses a marker with
#: this field. Otherwise it would deliver the producers' messages once more.
KNOWS_FAST = "a resolver that knows fast commits"
#: Batch of a marker while no batch of the checkpoint was delivered.
NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class Marker:
    """The `checkpoint` whose batches are delivered, the run (`instance`), and the last batch.

    `release` names the last release from the lane. `lane` is the offset of the lane before which no
    message waits; None if nobody knows. `generation` says by which transactional id the marker was
    written. `needs` is empty until a fast half was read, and `KNOWS_FAST` from then on.
    """

    checkpoint: str
    instance: str
    batch: int = NO_BATCH
    digest: str = ""
    release: str = ""
    lane: int | None = field(default=None, compare=False)
    generation: int = field(default=0, compare=False)
    needs: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"batch {self.batch} of checkpoint {self.checkpoint}, instance {self.instance}"

    def has_batch(self, batch: int, digest: str) -> bool:
        """Whether a batch was delivered; raises `MarkerMismatch` if another one was."""
        if batch == self.batch and digest != self.digest:
            raise MarkerMismatch(
                f"batch {batch} was delivered with digest {self.digest}, and its replay has "
                f"{digest}: what decides has changed since",
                remedy="finish the batch with the version that planned it, or start with "
                "--rebuild, on a new checkpoint",
            )
        if batch < self.batch:
            raise MarkerMismatch(
                f"batch {batch} comes after batch {self.batch} was delivered: the checkpoint is "
                "older than its marker, as one from a backup is",
                remedy="start with --rebuild, on a new one",
            )
        return batch == self.batch


def progress(former: Marker | None, ours: Marker) -> str:
    """Say in words how far the topics were delivered before this run."""
    if former is None:
        return "nobody has delivered before"
    whose = "this home" if former.checkpoint == ours.checkpoint else "another checkpoint"
    if former.batch == NO_BATCH:
        return f"{whose} has delivered nothing yet"
    return f"{whose} has delivered up to batch {former.batch}"
