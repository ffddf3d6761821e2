//! Properties of documents, order and text, for generated values of every type.

mod generate;
mod hostile;
mod order;
mod text;
