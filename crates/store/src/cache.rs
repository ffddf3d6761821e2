//! Whole documents by `_id`, above the engine.
