"""An audit's findings, by invariant; without Spark, so that anybody can read and print them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum


class Invariant(str, Enum):
    """The invariants that must hold; the value is the name in JSON."""

    ONE_OUTCOME = "one_outcome"
    FIRST_END = "first_end"
    OPERATOR = "operator"
    NO_CHECK_AFTER = "no_check_after"
    CHECK_MAX = "check_max"
    REVOKED = "revoked"
    GIVEN_UP = "given_up"
    RESUMED = "resumed"
    QUARANTINE = "quarantine"
    NOT_TWICE = "not_twice"
    OVERDUE = "overdue"
    COPIES = "copies"
    DELIVERED = "delivered"
    NOT_DELIVERED = "not_delivered"
    IN_ORDER = "in_order"


SAYS = {
    Invariant.ONE_OUTCOME: "each half has one outcome, or is pending, or is refused",
    Invariant.FIRST_END: "outcomes follow the first valid end",
    Invariant.OPERATOR: "an operator's outcome has its op",
    Invariant.NO_CHECK_AFTER: "no check after a final outcome",
    Invariant.CHECK_MAX: "counted checks keep to transaction_check_max",
    Invariant.REVOKED: "no half is asked about while its producer may deliver it",
    Invariant.GIVEN_UP: "each message that was given up is in discarded once",
    Invariant.RESUMED: "a message is resumed once, and only if it was not delivered",
    Invariant.QUARANTINE: "each refused record and element is in quarantine once",
    Invariant.NOT_TWICE: "producers deliver no message that another end has decided",
    Invariant.OVERDUE: "halves are asked about once overdue, and not before",
    Invariant.COPIES: "what is checked, discarded or refused is the half, bit for bit",
    Invariant.DELIVERED: "each committed half is one message, bit for bit",
    Invariant.NOT_DELIVERED: "no other half is a message",
    Invariant.IN_ORDER: "messages of a queue stand in the order of their ops",
}
#: The invariants that need the real topics.
OF_TOPICS = (Invariant.DELIVERED, Invariant.NOT_DELIVERED, Invariant.IN_ORDER)


@dataclass(frozen=True)
class Violation:
    """One violation; `transaction_id` and `half` (queue:offset) are None if it has none."""

    transaction_id: str | None
    half: str | None
    detail: str


@dataclass(frozen=True)
class Finding:
    """One invariant: the number of checked rows, of violations, and the first examples."""

    invariant: Invariant
    checked: int
    violations: int
    examples: tuple[Violation, ...]


@dataclass(frozen=True)
class Report:
    """The whole audit.

    - `counts`: how much there is, and how much could not be judged.
    - `undeliverable`: the number of undeliverable messages for the most frequent errors.
    - `versions`: the version of each table that was read.
    - `settings`: the limits by which checks and ends were judged.
    """

    findings: tuple[Finding, ...]
    counts: dict[str, int]
    undeliverable: dict[str, int]
    versions: dict[str, int]
    settings: dict[str, int | bool]

    @property
    def holds(self) -> bool:
        """Whether there is no violation."""
        return not any(finding.violations for finding in self.findings)

    def as_json(self) -> dict[str, object]:
        """Return the report in JSON's types."""
        findings = {
            finding.invariant.value: {
                "says": SAYS[finding.invariant],
                "checked": finding.checked,
                "violations": finding.violations,
                "examples": [asdict(example) for example in finding.examples],
            }
            for finding in self.findings
        }
        rest = {"versions": self.versions, "settings": self.settings}
        counted = {"counts": self.counts, "undeliverable": self.undeliverable}
        return {"holds": self.holds, "invariants": findings, **counted, **rest}

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        width = max(len(SAYS[finding.invariant]) for finding in self.findings)
        lines = [f"{'invariant':<{width}}  {'checked':>12}  {'violations':>10}"]
        for finding in self.findings:
            says = SAYS[finding.invariant]
            lines.append(f"{says:<{width}}  {finding.checked:>12,}  {finding.violations:>10,}")
            lines += [f"    {_told(example)}" for example in finding.examples]
        counts = {name.replace("_", " "): count for name, count in self.counts.items()}
        counts |= {f"undeliverable ({why})": count for why, count in self.undeliverable.items()}
        counted = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        judged = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return [*lines, "", f"There are: {counted}", f"Judged by: {judged}", self._verdict()]

    def _verdict(self) -> str:
        violations = sum(finding.violations for finding in self.findings)
        return f"THE AUDIT FOUND {violations:,} VIOLATIONS." if violations else "The audit holds."


def _told(violation: Violation) -> str:
    where = f"{violation.half or '-'} {violation.transaction_id or '-'}"
    return f"{where}: {violation.detail}"
