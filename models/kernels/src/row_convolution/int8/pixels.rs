//! The int8-quantised convolution of single pixels, strip after strip of pixels, each quantised by its own range.

use archmage::prelude::*;

use super::super::buffer_pool::PooledBuffer;
use super::super::map::{SeenMap, TargetRows};
use super::super::strip::Strip;
use super::kernel::{LANES, VECTORS};
use super::layer::{COLUMNS, Layer, see};
use super::output::{End, Outputs};
use super::scales::Scales;
use super::{QUAD, activate};
use crate::activation::Activation;

impl Layer<'_> {
    /// Fills in the target, which has the rows and columns of the map.
    pub(in super::super) fn fill(self, map: SeenMap<'_>, activation: Activation, target: TargetRows<'_>) {
        let processor = self.convolution.processor;
        let (end, left) = match activation {
            Activation::Sigmoid => (End::Sigmoid, Activation::None),
            other => (End::Floor(other.floor()), other),
        };
        let mut pass = Pass {
            layer: self,
            map,
            end,
            seen: PooledBuffer::take(map.channels.next_multiple_of(QUAD) * COLUMNS),
            words: PooledBuffer::take(self.convolution.quads * COLUMNS),
            scales: Scales::new(self.bias.len(), 0.0),
            after: PooledBuffer::take(self.outputs() * COLUMNS),
            target,
        };
        run(processor, &mut pass);
        activate(left, pass.target.values);
    }
}

/// One use of a convolution, on one map.
struct Pass<'a> {
    layer: Layer<'a>,
    map: SeenMap<'a>,
    end: End,
    /// Panels, `[channels][columns of the strip]`.
    seen: PooledBuffer,
    after: PooledBuffer,
    /// A panel of quantised features, four channels to a word.
    words: PooledBuffer,
    scales: Scales,
    target: TargetRows<'a>,
}

#[arcane]
fn run(_: X64V4xToken, pass: &mut Pass<'_>) {
    for strip in Strip::all([pass.map.rows, pass.map.width], COLUMNS, LANES) {
        match strip.count.div_ceil(LANES) {
            0 | 1 => fill_strip::<1>(pass, strip),
            2 => fill_strip::<2>(pass, strip),
            _ => fill_strip::<VECTORS>(pass, strip),
        }
    }
}

/// Fills in a strip of `N` vectors.
#[rite(v4x)]
fn fill_strip<const N: usize>(pass: &mut Pass<'_>, strip: Strip) {
    let words: &mut [u32] = bytemuck::cast_slice_mut(&mut pass.words);
    let seen = see::<N>(pass.map, None, strip, &mut pass.seen, words);
    let Layer { convolution, bias } = pass.layer;
    pass.scales.set(convolution, bias, seen.features);
    let outputs = Outputs {
        added: None,
        adds_target: false,
        end: pass.end,
    };
    outputs.fill::<N>(
        pass.layer,
        words,
        &pass.scales,
        strip,
        &mut pass.after,
        &mut pass.target,
    );
}
