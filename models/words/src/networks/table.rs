//! The network that reads the structure of tables, SLANet (Li et al. 2022), "plus" of PaddleX: the trunk of PP-LCNet and a neck, of
//! which the coarsest map is read by a decoder, token after token.

use parkhang_kernels::feature_map::FeatureMap;
use parkhang_models::checkpoint::WeightsError;

use super::csp_pan::Neck;
use super::pplcnet::{LAST, Trunk};
use super::table_decoder::{self, TableDecoder};
use super::{Architecture, Builder};
use crate::inference::{InferenceError, TableStep};

/// Rows and columns of a picture.
pub(super) const SIDE: usize = 488;
/// Blocks of the trunk whose maps the neck sees beside the last one, and their channels.
const SEEN: [(usize, usize); 3] = [(2, 64), (4, 128), (10, 256)];

/// The network, for maps of the kind `M`.
#[derive(Debug)]
pub(crate) struct TableNetwork<M: FeatureMap> {
    trunk: Trunk<M>,
    neck: Neck<M>,
    decoder: TableDecoder,
}

impl<M: FeatureMap> Architecture<M> for TableNetwork<M> {
    const NAME: &'static str = "slanet-plus";
    const OPERATORS: &'static [&'static str] = &["HardSigmoid", "HardSwish"];
    type Answer = Vec<Vec<TableStep>>;

    fn load(builder: &mut Builder<'_>) -> Result<Self, WeightsError> {
        let [first, second, third] = SEEN.map(|(_, channels)| channels);
        Ok(Self {
            trunk: Trunk::load(builder)?,
            neck: Neck::load(builder, &[first, second, third, LAST], table_decoder::CHANNELS)?,
            decoder: TableDecoder::load(builder)?,
        })
    }

    fn forward(&self, images: M) -> Result<Vec<Vec<TableStep>>, InferenceError> {
        let (mut maps, last) = self.trunk.forward(images, &SEEN.map(|(block, _)| block))?;
        maps.push(last);
        let Some(coarsest) = self.neck.forward(&maps)?.maps.pop() else {
            return Ok(Vec::new());
        };
        let size = coarsest.size();
        let planes = coarsest.planes()?;
        let of_an_image = (size.channels * size.rows * size.columns).max(1);
        let images = planes.chunks_exact(of_an_image);
        Ok(images.map(|planes| self.decoder.decode(planes)).collect())
    }
}
