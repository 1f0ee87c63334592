//! Tests of graphs and their forms.

mod diff;
mod dot;
mod json;
mod text;
