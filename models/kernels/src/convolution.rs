//! Shape and weights of a convolution, as data: the loader of a checkpoint fills them in, and each kind of map makes a layer of
//! its own form from them.

/// Hyperparameters of a two-dimensional convolution.
#[derive(Debug, Clone, Copy)]
pub struct Conv2dShape {
    pub inputs: usize,
    pub outputs: usize,
    /// Rows and columns, as in the fields below.
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilation: [usize; 2],
    pub padding: [usize; 2],
    /// Zeros after the last row and column besides those of `padding`, for kernels of an even size.
    pub after: [usize; 2],
    pub groups: usize,
    /// `true` where a file holds the weight of a one-dimensional convolution, without the kernel's one row.
    pub stored_flat: bool,
}

impl Conv2dShape {
    /// A square kernel, padded by half its side; the size changes with the stride alone.
    pub fn square(inputs: usize, outputs: usize, kernel: usize, stride: [usize; 2]) -> Self {
        Self {
            inputs,
            outputs,
            kernel: [kernel; 2],
            stride,
            dilation: [1, 1],
            padding: [kernel / 2; 2],
            after: [0, 0],
            groups: 1,
            stored_flat: false,
        }
    }

    /// A convolution of single pixels.
    pub fn pointwise(inputs: usize, outputs: usize) -> Self {
        Self::square(inputs, outputs, 1, [1, 1])
    }

    /// A square kernel of an even size that keeps the size of the map: it sees one row and column more after its pixel than
    /// before.
    pub fn even(inputs: usize, outputs: usize, kernel: usize) -> Self {
        let before = (kernel - 1) / 2;
        Self {
            padding: [before; 2],
            after: [kernel - 1 - 2 * before; 2],
            ..Self::square(inputs, outputs, kernel, [1, 1])
        }
    }

    /// Patches, kernel and stride alike: the input is cut into patches.
    pub fn patch(inputs: usize, outputs: usize, size: usize) -> Self {
        Self {
            padding: [0, 0],
            ..Self::square(inputs, outputs, size, [size, size])
        }
    }

    /// A convolution along the columns only; keeps their number.
    pub fn sequence(inputs: usize, outputs: usize, kernel: usize, dilation: usize) -> Self {
        Self {
            kernel: [1, kernel],
            dilation: [1, dilation],
            // Half of what an odd kernel reaches on each side, so that there are as many columns after it as
            // before.
            padding: [0, dilation * (kernel / 2)],
            stored_flat: true,
            ..Self::pointwise(inputs, outputs)
        }
    }

    /// This shape with its taps apart, in rows and columns; keeps the size.
    pub fn dilated(self, dilation: usize) -> Self {
        Self {
            dilation: [dilation; 2],
            padding: self.kernel.map(|kernel| dilation * (kernel / 2)),
            ..self
        }
    }

    /// This shape with a stride, in rows and columns.
    pub fn with_stride(self, stride: [usize; 2]) -> Self {
        Self { stride, ..self }
    }

    /// A depthwise convolution, each channel by itself; keeps the size.
    pub fn depthwise(channels: usize, kernel: usize) -> Self {
        Self {
            groups: channels,
            ..Self::square(channels, channels, kernel, [1, 1])
        }
    }
}

/// Weights of a convolution with its norm folded in.
#[derive(Debug, Clone)]
pub struct ConvolutionWeights {
    /// `[outputs][inputs][rows][columns]`.
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    /// Value that the norm makes of zero, for networks that pad between the convolution and the norm; zero without a norm.
    pub of_zero: Vec<f32>,
}
