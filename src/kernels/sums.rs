//! Sums of many numbers, and what is rounded off them.

use cubecl::prelude::*;

/// Terms of a [`RunningSum`] that are added up before they are added to its total.
const RUN: usize = 16;

/// A sum of many vectors. What is rounded off its total is kept, so that its error is that of a run,
/// however many terms of one sign there are. Infinities stay infinite.
#[derive(CubeType)]
pub(crate) struct RunningSum<A: Float, V: Size> {
    total: Vector<A, V>,
    rest: Vector<A, V>,
    run: Vector<A, V>,
    terms: usize,
}

#[cube]
impl<A: Float, V: Size> RunningSum<A, V> {
    pub fn new() -> Self {
        RunningSum::<A, V> {
            total: Vector::<A, V>::zero(),
            rest: Vector::<A, V>::zero(),
            run: Vector::<A, V>::zero(),
            terms: 0usize,
        }
    }

    /// Makes it the sum of nothing.
    pub fn clear(&mut self) {
        self.total = Vector::<A, V>::zero();
        self.rest = Vector::<A, V>::zero();
        self.run = Vector::<A, V>::zero();
        self.terms = 0usize;
    }

    pub fn add(&mut self, term: Vector<A, V>) {
        self.run += term;
        self.terms += 1;
        if self.terms == RUN {
            let (total, error) = two_sums::<A, V>(self.total, self.run);
            self.total = total;
            self.rest += error;
            self.run = Vector::<A, V>::zero();
            self.terms = 0usize;
        }
    }

    /// Multiplies the sum.
    pub fn scale(&mut self, factor: Vector<A, V>) {
        self.total *= factor;
        self.rest *= factor;
        self.run *= factor;
    }

    pub fn total(&self) -> Vector<A, V> {
        let finite = self.total.abs().less_equal(&Vector::new(A::max_value()));
        let rest = select_many(finite, self.rest, Vector::zero());
        self.total + (self.run + rest)
    }
}

/// The sums of two vectors, rounded, and what was rounded off them (Knuth's TwoSum).
#[cube]
pub(crate) fn two_sums<A: Float, V: Size>(
    a: Vector<A, V>,
    b: Vector<A, V>,
) -> (Vector<A, V>, Vector<A, V>) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// [`two_sums`] of two numbers.
#[cube]
pub(crate) fn two_sum<A: Float>(a: A, b: A) -> (A, A) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// A sum with what was rounded off it; infinities stay so.
#[cube]
pub(crate) fn corrected<A: Float>(sum: A, rest: A) -> A {
    select(sum.abs() <= A::max_value(), sum + rest, sum)
}

/// The sum of a vector's elements, in order.
#[cube]
pub(crate) fn elements_sum<A: Float, V: Size>(vector: Vector<A, V>) -> A {
    let mut sum = vector.extract(0usize);
    #[unroll]
    for i in 1..vector.vector_size() {
        sum += vector.extract(i);
    }
    sum
}

/// The largest of a vector's elements.
#[cube]
pub(crate) fn elements_max<A: Float, V: Size>(vector: Vector<A, V>) -> A {
    let mut largest = vector.extract(0usize);
    #[unroll]
    for i in 1..vector.vector_size() {
        largest = max(largest, vector.extract(i));
    }
    largest
}

/// The elements of a row, which sums over it are divided by.
#[derive(CubeType)]
pub(crate) struct Count<A: Float> {
    count: A,
    reciprocal: A,
}

#[cube]
impl<A: Float> Count<A> {
    pub fn of(columns: usize) -> Self {
        let count = A::cast_from(columns);
        Count::<A> { count, reciprocal: A::recip(count) }
    }

    /// The mean, given the sum. A division, which on GPUs is a call, once for all rows.
    pub fn mean(&self, sum: A) -> A {
        let quotient = sum * self.reciprocal;
        let rest = fma(-quotient, self.count, sum);
        corrected::<A>(quotient, rest * self.reciprocal)
    }
}
