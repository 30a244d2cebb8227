"""Finds out from the state which phase a hybrid source is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamling.connectors.hybrid.offset_table import LoadedOffsets
from streamling.connectors.hybrid.phases import Phases, infer_phases, state_key
from streamling.connectors.hybrid.tables import BoundedTables
from streamling.connectors.kafka.offsets import Offsets

if TYPE_CHECKING:
    from streamling.connectors.hybrid.options import HybridSourceOptions
    from streamling.plugins.context import NodeContext


class StoredPhases:
    """The phases of a source in the state."""

    def __init__(
        self,
        context: NodeContext[HybridSourceOptions],
        offsets: Offsets,
        tables: BoundedTables,
        loaded: LoadedOffsets,
    ) -> None:
        self._context = context
        self._state = context.state
        self._log = context.log
        self._offsets = offsets
        self._tables = tables
        self._loaded = loaded
        self._count = len(context.options.bounded_sources)
        self.key = state_key(context.name)

    def parse(self, entry: object) -> Phases | None:
        """Return the phases in an entry; None if there is none or it is not readable."""
        return Phases.parse(entry, self._offsets.topic, self._count)

    def find(self) -> Phases | None:
        """Return the stored phases; None if there are none."""
        return self.parse(self._state.get(self.key))

    def restore(self) -> Phases | None:
        """Return the stored phases, or those that the other entries of the state imply; None if there are none."""
        phases, offsets = self.find(), self._offsets.of(self._state.get_prefix(self._offsets.prefix))
        if phases is None:
            return self._inferred(offsets)
        if offsets or phases.is_handed_off:
            self._log_skipped(phases.current)
            return phases.handed_off()
        return phases

    def _inferred(self, offsets: dict[int, int]) -> Phases | None:
        cursors = self._tables.phases_with_cursor()
        if not offsets and not cursors:
            return None
        expected = self._context.retry(self._loaded.read)
        phases = infer_phases(self._count, cursors, offsets, expected or ())
        self._log.warning(
            "the state has no readable entry '%s': continuing with %s, as other entries imply",
            self.key,
            f"the topic '{self._offsets.topic}'" if phases.is_handed_off else self._tables.title(phases.current),
        )
        if not phases.is_handed_off:  # they are of another run; those that are recorded now may be smaller
            for partition in offsets:
                self._state.remove(self._offsets.key(partition))
        return phases

    def _log_skipped(self, current: int) -> None:
        """Warn about phases that were added to the file after the switch to the topic."""
        for phase in range(current, self._count):
            self._log.warning(
                "%s is not read: the source has already switched to the topic '%s'. To read everything again, use "
                "'streamling state reset'",
                self._tables.title(phase),
                self._offsets.topic,
            )
