//! What the clients know of the data, by which it is verified after a restart.
use super::generations::Generations;
use super::model::Model;
use super::schema::Schema;
use super::verify::verify;
use crate::args::Outcome;
use std::time::Instant;

/// What the clients know of the data.
pub(super) struct World {
    pub(super) models: Vec<Model>,
    pub(super) schema: Schema,
    /// None without encryption.
    pub(super) generations: Option<Generations>,
}

impl World {
    pub(super) fn new(threads: u64, encrypted: bool) -> World {
        let models = (0..threads).map(Model::new).collect();
        let generations = encrypted.then(Generations::default);
        World { models, schema: Schema::default(), generations }
    }

    /// Verifies everything after a restart; returns the number of documents.
    pub(super) fn verify(&mut self, address: &str, certain_at: Instant) -> Outcome<usize> {
        if let Some(generations) = &mut self.generations {
            generations.settle(address)?;
        }
        verify(address, (&mut self.models, &mut self.schema), certain_at)
    }

    /// A part of the closing sentence.
    pub(super) fn generations(&self) -> String {
        let told = |one: &Generations| format!(", {} generations of keys", one.acknowledged());
        self.generations.as_ref().map_or_else(String::new, told)
    }
}
