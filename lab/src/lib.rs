//! Experiments around the engine: data generators now, the papers' figures and peers side by side as they come.
//!
//! Owns what is needed to measure Thermocline and is not shipped with it. Owns no engine code.

pub mod generate;
