//! A pipeline as text: a line for the scan, for each step and for the sink.

use std::fmt;

use crate::ordinal;

use super::{Aggregate, Condition, Expression, Origin, Pipeline, Sink, Slot, Step};

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
                Step::Condition { condition } => {
                    writeln!(f, "filter {}", ShownCondition { pipeline: self, condition })?
                }
                Step::Probe { table, keys, kind, payload } => {
                    write!(f, "{} {} with {}", kind.name(), self.tables[*table].name, self.names(keys))?;
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
                write!(f, "aggregate{}{}", if shown.is_empty() { "" } else { " " }, shown.join(", "))?;
                if groups.is_empty() { Ok(()) } else { write!(f, " by {}", self.names(groups)) }
            }
            Sink::Build { name, keys, payload } => {
                write!(f, "build {name} by {}", self.names(keys))?;
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
            Expression::Literal { value, value_type } if value_type.is_float() => {
                write!(f, "{value_type} {:?}", ordinal::to_float(*value as i64))
            }
            Expression::Literal { value, value_type } => write!(f, "{value_type} {value}"),
            Expression::Null { .. } => f.write_str("NULL"),
            Expression::Parameter { number, value_type } => write!(f, "{value_type} ${number}"),
            Expression::Binary { operator, operands } => {
                write!(f, "({} {} {})", shown(&operands.0), operator.symbol(), shown(&operands.1))
            }
            Expression::Cast { operand, to } => write!(f, "{to}({})", shown(operand)),
            Expression::DatePart { part, operand } => write!(f, "{}({})", part.name(), shown(operand)),
            Expression::Case { branches, otherwise } => {
                f.write_str("CASE")?;
                for (condition, value) in branches {
                    let condition = ShownCondition { pipeline: self.pipeline, condition };
                    write!(f, " WHEN {condition} THEN {}", shown(value))?;
                }
                if let Some(value) = otherwise {
                    write!(f, " ELSE {}", shown(value))?;
                }
                f.write_str(" END")
            }
        }
    }
}

struct ShownCondition<'a> {
    pipeline: &'a Pipeline,
    condition: &'a Condition,
}

impl fmt::Display for ShownCondition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pipeline = self.pipeline;
        let joined = |parts: &[Condition], word: &str| {
            let shown = |condition| ShownCondition { pipeline, condition }.to_string();
            let parts: Vec<String> = parts.iter().map(shown).collect();
            format!("({})", parts.join(word))
        };
        match self.condition {
            Condition::In { slot, domain } => write!(f, "{}", domain.display(&pipeline.name(*slot))),
            Condition::Text { test, .. } => write!(f, "{test}"),
            Condition::IsNull(slot) => write!(f, "{} IS NULL", pipeline.name(*slot)),
            Condition::Compare { comparison, operands } => {
                let shown = |expression| Shown { pipeline, expression };
                write!(f, "{} {} {}", shown(&operands.0), comparison.symbol(), shown(&operands.1))
            }
            Condition::All(parts) => f.write_str(&joined(parts, " AND ")),
            Condition::Any(parts) => f.write_str(&joined(parts, " OR ")),
            Condition::Not(part) => write!(f, "NOT ({})", ShownCondition { pipeline, condition: part }),
        }
    }
}
