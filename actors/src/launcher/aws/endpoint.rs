//! Addresses of services of AWS.

use aws_config::SdkConfig;
use aws_types::service_config::ServiceConfigKey;

/// Services that are called by few operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::launcher) enum Service {
    AutoScaling,
    Ecs,
}

impl Service {
    /// Name in addresses, and in signatures.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AutoScaling => "autoscaling",
            Self::Ecs => "ecs",
        }
    }

    /// Name in configuration files and variables of AWS.
    const fn id(self) -> &'static str {
        match self {
            Self::AutoScaling => "Auto Scaling",
            Self::Ecs => "ECS",
        }
    }

    /// Address that the environment or the profile has for the service or for all, or else that of AWS in the region.
    pub(super) fn endpoint(self, shared: &SdkConfig, region: &str) -> String {
        let key = ServiceConfigKey::builder()
            .service_id(self.id())
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build();
        let configured = shared
            .service_config()
            .zip(key.ok())
            .and_then(|(config, key)| config.load_config(key))
            .or_else(|| shared.endpoint_url().map(str::to_owned));
        let fips = shared.use_fips().unwrap_or_default();
        let dual_stack = shared.use_dual_stack().unwrap_or_default();
        configured.unwrap_or_else(|| self.address(region, fips, dual_stack))
    }

    fn address(self, region: &str, fips: bool, dual_stack: bool) -> String {
        let fips = if fips { "-fips" } else { "" };
        let china = if region.starts_with("cn-") { ".cn" } else { "" };
        let domain = match (dual_stack, china) {
            (false, _) => "amazonaws.com",
            (true, "") => "api.aws",
            (true, _) => "api.amazonwebservices.com",
        };
        format!("https://{}{fips}.{region}.{domain}{china}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_the_region_and_its_partition() {
        let address = |region, fips, dual_stack| Service::Ecs.address(region, fips, dual_stack);
        assert_eq!(
            address("eu-west-1", false, false),
            "https://ecs.eu-west-1.amazonaws.com"
        );
        assert_eq!(
            address("us-east-1", true, false),
            "https://ecs-fips.us-east-1.amazonaws.com"
        );
        assert_eq!(address("us-east-1", false, true), "https://ecs.us-east-1.api.aws");
        assert_eq!(
            address("cn-north-1", false, false),
            "https://ecs.cn-north-1.amazonaws.com.cn"
        );
        assert_eq!(
            address("cn-north-1", false, true),
            "https://ecs.cn-north-1.api.amazonwebservices.com.cn"
        );
    }

    #[test]
    fn an_address_of_the_configuration_goes_before_that_of_aws() {
        let shared = SdkConfig::builder().endpoint_url("http://127.0.0.1:5000").build();
        let address = Service::AutoScaling.endpoint(&shared, "us-east-1");
        assert_eq!(address, "http://127.0.0.1:5000");
        let address = Service::AutoScaling.endpoint(&SdkConfig::builder().build(), "us-east-1");
        assert_eq!(address, "https://autoscaling.us-east-1.amazonaws.com");
    }
}
