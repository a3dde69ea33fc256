//! Two convolutions of single pixels with an activation between, strip after strip of pixels: what lies between them, the
//! largest map of a residual block, never leaves the first caches.

#[cfg(target_arch = "x86_64")]
use super::int8;
use super::map::{SeenMap, TargetRows};
use super::pointwise;
use super::{Form, InstructionSet, Pixels, RowConvolution};
use crate::activation::Activation;

/// Addend of the second convolution, before the activation after it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Added {
    Nothing,
    /// The map that went in, times its factors.
    Input,
    /// Values that the target has before.
    Target,
}

/// Two convolutions of single pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowPerceptron<'a> {
    pub(crate) widen: &'a RowConvolution,
    pub(crate) between: Activation,
    pub(crate) narrow: &'a RowConvolution,
    pub(crate) added: Added,
    pub(crate) after: Activation,
}

impl RowPerceptron<'_> {
    /// Fills in the target, which has the rows and columns of the map. `factors` scale the channels of the map before. Returns
    /// `None`, and leaves the target as it is, where the convolutions are no two of single pixels in one precision, or where they
    /// are int8-quantised with other functions than GELU or ReLU between and ReLU after.
    pub(crate) fn fill(
        self,
        map: SeenMap<'_>,
        factors: Option<&[f32]>,
        target: TargetRows<'_>,
    ) -> Option<()> {
        self.fill_on(InstructionSet::detect(), map, factors, target)
    }

    pub(super) fn fill_on(
        self,
        instructions: InstructionSet,
        map: SeenMap<'_>,
        factors: Option<&[f32]>,
        target: TargetRows<'_>,
    ) -> Option<()> {
        let Self {
            widen,
            between,
            narrow,
            added,
            after,
        } = self;
        if target.values.is_empty() {
            return Some(());
        }
        #[cfg(target_arch = "x86_64")]
        if let (Form::Pixels(Pixels::Int8(first)), Form::Pixels(Pixels::Int8(last))) =
            (&widen.form, &narrow.form)
        {
            let layer = |convolution, bias| int8::Layer { convolution, bias };
            let perceptron = int8::Perceptron {
                widen: layer(first, &widen.bias),
                between: int8::Between::of(between)?,
                narrow: layer(last, &narrow.bias),
                added,
                least: after.is_floor().then(|| after.floor())?,
            };
            perceptron.fill(map, factors, target);
            return Some(());
        }
        let (Form::Pixels(Pixels::Float(first)), Form::Pixels(Pixels::Float(last))) =
            (&widen.form, &narrow.form)
        else {
            return None;
        };
        let perceptron = pointwise::Perceptron {
            widen: first,
            widen_bias: &widen.bias,
            activation: between,
            narrow: last,
            narrow_bias: &narrow.bias,
            added,
            after,
        };
        perceptron.fill(instructions, map, factors, target);
        Some(())
    }
}
