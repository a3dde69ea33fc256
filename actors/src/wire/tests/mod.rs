mod bytes;
mod round_trip;
mod skew;
mod strategies;
mod translation;
