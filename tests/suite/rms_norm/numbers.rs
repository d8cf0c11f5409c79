//! Zeros and values near the ends of their types.

use super::RmsNorm;
use crate::numbers;

#[test]
fn zeros() {
    numbers::zeros(RmsNorm);
}

#[test]
fn epsilon_of_the_size_of_the_mean_square() {
    numbers::epsilon_of_the_size_of_the_spread(RmsNorm);
}

#[test]
fn large_and_small_values() {
    numbers::large_and_small_values(RmsNorm);
}

#[test]
fn squares_past_the_range() {
    numbers::squares_past_the_range(RmsNorm::default());
}
