//! Combinations of what a test varies: types, layouts, parameters. Most are kernels of their own, and compiling
//! those is nearly all of a test's time where it is slow: there each pair of values occurs together at least
//! once, in combinations that are drawn anew for each run. `BURN_FUSED_ALL` asks for every combination.

use crate::{device, random::Random};
use std::{collections::HashSet, env};

/// Combinations that are tried for each one that is taken.
const CANDIDATES: usize = 40;

/// Whether there is time for every combination.
pub fn all() -> bool {
    device::is_fast() || env::var_os("BURN_FUSED_ALL").is_some()
}

/// Every combination of one index below each of `sizes`, or so many that each pair occurs in one.
pub fn combinations<const N: usize>(sizes: [usize; N], random: &mut Random) -> Vec<[usize; N]> {
    if all() { product(sizes) } else { pairs(sizes, random) }
}

fn product<const N: usize>(sizes: [usize; N]) -> Vec<[usize; N]> {
    let at = |mut place: usize| {
        sizes.map(|size| {
            let index = place % size;
            place /= size;
            index
        })
    };
    (0..sizes.iter().product()).map(at).collect()
}

/// Takes the combination with most pairs that are still missing, of some with one of them.
fn pairs<const N: usize>(sizes: [usize; N], random: &mut Random) -> Vec<[usize; N]> {
    if N == 1 {
        return product(sizes);
    }
    let mut missing: HashSet<_> = product(sizes).iter().flat_map(pairs_of).collect();
    let mut taken = Vec::new();
    while !missing.is_empty() {
        let mut in_order: Vec<_> = missing.iter().copied().collect();
        in_order.sort_unstable();
        let candidates = (0..CANDIDATES).map(|_| {
            let [a, b] = in_order[random.below(in_order.len())];
            let mut candidate = sizes.map(|size| random.below(size));
            (candidate[a.0], candidate[b.0]) = (a.1, b.1);
            candidate
        });
        let gain = |candidate: &[usize; N]| {
            pairs_of(candidate).filter(|pair| missing.contains(pair)).count()
        };
        let best = candidates.max_by_key(gain).expect("there are some");
        pairs_of(&best).for_each(|pair| {
            missing.remove(&pair);
        });
        taken.push(best);
    }
    taken
}

/// An index of one dimension beside one of a later dimension: each its dimension, and itself.
type Pair = [(usize, usize); 2];

fn pairs_of<const N: usize>(combination: &[usize; N]) -> impl Iterator<Item = Pair> + use<N> {
    let combination = *combination;
    (0..N).flat_map(move |a| (a + 1..N).map(move |b| [(a, combination[a]), (b, combination[b])]))
}

#[test]
fn each_pair_occurs() {
    let mut random = Random::of("each_pair_occurs");
    let sizes = [17, 2, 3, 4];
    let taken: HashSet<_> = pairs(sizes, &mut random).iter().flat_map(pairs_of).collect();
    assert_eq!(taken, product(sizes).iter().flat_map(pairs_of).collect());
    let fewest = 17 * 4;
    let found = pairs(sizes, &mut random).len();
    assert!((fewest..fewest * 5 / 4).contains(&found), "{found} combinations");
    assert_eq!(product([2, 3]), [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]]);
}
