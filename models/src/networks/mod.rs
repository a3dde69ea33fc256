//! The networks behind the traits of [`crate::inference`]: two segmenters, [`patch_segmenter`] of this project and [`deeplab`]
//! of BDRC's, and three recognisers, [`ctc_residual_conv`] of this project, Easter2 and CRNN of BDRC's, which read images of
//! one size and share what is around them ([`fixed_size`]). [`second_reading`] puts two recognisers in a row.
//!
//! Each is plain code over a [`FeatureMap`](parkhang_kernels::feature_map::FeatureMap) and not a graph that a runtime
//! interprets: five networks are few, and a reader sees in some hundred lines what is computed. A network has one form for each
//! kind of map, made when it is loaded, because the device is known then and layers have the form of their device.
//!
//! Networks take tensors, sizes and a device, never a bundle: what a description says of a network is checked by
//! [`crate::weights`], which knows descriptions, and errors about keys of a file are its own. So networks can be tried on any
//! checkpoint, and the room of bundles may use them without a circle.

pub(crate) mod crnn;
pub(crate) mod ctc_residual_conv;
pub(crate) mod deeplab;
mod easter2;
pub(crate) mod fixed_size;
pub(crate) mod patch_segmenter;
pub(crate) mod second_reading;
mod softmax;
