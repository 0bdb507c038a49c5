//! A pipeline as text: a line for the scan, for each step and for the sink.

use std::fmt;

use super::{Aggregate, Expression, Origin, Pipeline, ProbeKind, Sink, Slot, Step};

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scanned = self.slots.iter().filter_map(|info| match info.origin {
            Origin::Column(column) => {
                let null = if info.nullable { "?" } else { "" };
                Some(format!("{}: {}{null} #{column}", info.name, info.value_type))
            }
            _ => None,
        });
        writeln!(f, "scan {}", scanned.collect::<Vec<_>>().join(", "))?;
        for step in &self.steps {
            match step {
                Step::Filter { slot, domain } => writeln!(f, "filter {}", domain.display(&self.name(*slot)))?,
                Step::Probe { table, key, kind, payload } => {
                    let kind = match kind {
                        ProbeKind::Inner => "probe",
                        ProbeKind::Semi => "semi-probe",
                    };
                    write!(f, "{kind} {} with {}", self.tables[*table].name, self.name(*key))?;
                    if !payload.is_empty() {
                        write!(f, " for {}", self.names(payload))?;
                    }
                    writeln!(f)?;
                }
                Step::Compute { slot, expression } => {
                    writeln!(f, "compute {} = {}", self.name(*slot), Shown { pipeline: self, expression })?;
                }
            }
        }
        match &self.sink {
            Sink::Aggregate { groups, aggregates } => {
                let shown = aggregates.iter().map(|aggregate| self.aggregate(*aggregate)).collect::<Vec<_>>();
                write!(f, "aggregate {}", shown.join(", "))?;
                if groups.is_empty() { Ok(()) } else { write!(f, " by {}", self.names(groups)) }
            }
            Sink::Build { name, key, payload } => {
                write!(f, "build {name} by {}", self.name(*key))?;
                if payload.is_empty() { Ok(()) } else { write!(f, " with {}", self.names(payload)) }
            }
            Sink::Materialise { columns } => write!(f, "materialise {}", self.names(columns)),
        }
    }
}

impl Pipeline {
    fn name(&self, slot: Slot) -> &str {
        &self.slot(slot).name
    }

    fn names(&self, slots: &[Slot]) -> String {
        slots.iter().map(|slot| self.name(*slot)).collect::<Vec<_>>().join(", ")
    }

    fn aggregate(&self, aggregate: Aggregate) -> String {
        let of = aggregate.slot().map_or("*", |slot| self.name(slot));
        format!("{}({of})", aggregate.name())
    }
}

struct Shown<'a> {
    pipeline: &'a Pipeline,
    expression: &'a Expression,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |expression| Shown { pipeline: self.pipeline, expression };
        match self.expression {
            Expression::Slot(slot) => f.write_str(self.pipeline.name(*slot)),
            Expression::Literal { value, value_type } => write!(f, "{value_type} {value}"),
            Expression::Binary { operator, operands } => {
                write!(f, "({} {} {})", shown(&operands.0), operator.symbol(), shown(&operands.1))
            }
            Expression::Widen { operand, to } => write!(f, "{to}({})", shown(operand)),
        }
    }
}
