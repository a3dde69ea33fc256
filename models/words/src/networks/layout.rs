//! The layout detector, PicoDet (Yu et al. 2021) on the trunk of PP-LCNet, trained on CDLA: in each cell of four maps, how likely the
//! middle of a region of each class lies there, and how far its sides are.

use parkhang_kernels::feature_map::FeatureMap;
use parkhang_kernels::{Activation, Conv2dShape};
use parkhang_models::checkpoint::WeightsError;

use super::csp_pan::{KERNEL, Levels, Neck};
use super::pplcnet::{LAST, Separable, Trunk};
use super::{Architecture, Builder};
use crate::inference::{InferenceError, LayoutLevel, LayoutMaps};

/// Rows and columns of a page.
pub(super) const SIZE: [usize; 2] = [800, 608];
/// Blocks of the trunk whose maps the neck sees beside the last one, and their channels.
const SEEN: [(usize, usize); 2] = [(4, 128), (10, 256)];
/// Channels of the neck.
const CHANNELS: usize = 128;
/// Separable convolutions of a head.
const DEPTH: usize = 4;

/// The network, for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct LayoutNetwork<M: FeatureMap> {
    trunk: Trunk<M>,
    neck: Neck<M>,
    /// Halving of the coarsest map of the trunk, and of that of the neck, whose sum is the coarsest level.
    further: [Separable<M>; 2],
    heads: Vec<Head<M>>,
}

/// Layers of a level.
#[derive(Debug)]
struct Head<M: FeatureMap> {
    separable: Vec<Separable<M>>,
    last: M::Convolution,
}

impl<M: FeatureMap> Head<M> {
    fn load(builder: &mut Builder<'_>, name: &str) -> Result<Self, WeightsError> {
        let mut separable = Vec::with_capacity(DEPTH);
        for number in 0..DEPTH {
            let name = format!("{name}.{number}");
            separable.push(Separable::load(builder, &name, KERNEL, [CHANNELS; 2], 1)?);
        }
        let shape = Conv2dShape::pointwise(CHANNELS, LayoutLevel::VALUES);
        Ok(Self {
            separable,
            last: builder.convolution::<M>(&format!("{name}.last"), shape)?,
        })
    }

    fn forward(&self, map: &M) -> Result<M, InferenceError> {
        let mut map = map.clone();
        for separable in &self.separable {
            map = separable.forward(&map)?;
        }
        map.convolve(&self.last, Activation::None)
    }
}

impl<M: FeatureMap> Architecture<M> for LayoutNetwork<M> {
    const NAME: &'static str = "picodet-layout-cdla";
    const OPERATORS: &'static [&'static str] = &["HardSigmoid"];
    type Answer = Vec<LayoutMaps>;

    fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let trunk = Trunk::load(builder)?;
        let inputs = [SEEN[0].1, SEEN[1].1, LAST];
        let neck = Neck::load(builder, &inputs, CHANNELS)?;
        let mut further =
            |name: &str| Separable::load(builder, &format!("further.{name}"), KERNEL, [CHANNELS; 2], 2);
        let further = [further("trunk")?, further("neck")?];
        let heads = (0..=inputs.len()).map(|level| Head::load(builder, &format!("head.{level}")));
        Ok(Self {
            trunk,
            neck,
            further,
            heads: heads.collect::<Result<_, _>>()?,
        })
    }

    fn forward(&self, images: M) -> Result<Vec<LayoutMaps>, InferenceError> {
        let (mut maps, last) = self.trunk.forward(images, &SEEN.map(|(block, _)| block))?;
        maps.push(last);
        let Levels { laterals, mut maps } = self.neck.forward(&maps)?;
        if let (Some(lateral), Some(coarsest)) = (laterals.last(), maps.last()) {
            let [of_trunk, of_neck] = &self.further;
            let further = of_trunk.forward(lateral)?.add(&of_neck.forward(coarsest)?);
            maps.push(further);
        }
        let mut answers: Vec<LayoutMaps> = Vec::new();
        for (map, head) in maps.iter().zip(&self.heads) {
            let size = map.size();
            let answer = head.forward(map)?;
            let values = answer.planes()?;
            let of_an_image = LayoutLevel::VALUES * size.rows * size.columns;
            let levels = values.chunks(of_an_image.max(1)).map(|values| LayoutLevel {
                rows: size.rows,
                columns: size.columns,
                values: values.to_vec(),
            });
            for (image, level) in levels.enumerate() {
                if answers.len() <= image {
                    answers.push(LayoutMaps::default());
                }
                answers[image].levels.push(level);
            }
        }
        Ok(answers)
    }
}
