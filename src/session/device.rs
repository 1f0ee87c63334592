//! Inputs and outputs of a model in the memory of a device.

use super::{Session, SessionError, on_host};
use crate::backend::{BackendError, Runner};
use crate::plan::{Base, Place, Plan};
use crate::tensor::{Device, Tensor, TensorType};
use std::collections::BTreeSet;

/// An input or an output of a session in the memory of a device. It belongs to the session, and keeps its address from
/// run to run. An output holds the value of the last run.
pub struct DeviceTensor<'s> {
    runner: &'s mut dyn Runner,
    ty: &'s TensorType,
    place: Place,
    address: u64,
}

impl DeviceTensor<'_> {
    /// Returns the type, which names the device.
    pub fn ty(&self) -> &TensorType {
        self.ty
    }

    /// Returns the address in the memory of the device. Other programs may write an input there, or read an output,
    /// while the session does not run.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies a value of the host there.
    ///
    /// # Errors
    /// If the value is of another type, or the device reports an error.
    pub fn write(&mut self, value: &Tensor) -> Result<(), SessionError> {
        let wanted = on_host(self.ty);
        if *value.ty() != wanted {
            return Err(SessionError::InputType {
                name: self.place.to_string(),
                wanted: Box::new(wanted),
                given: Box::new(value.ty().clone()),
            });
        }
        Ok(self.runner.write(self.place, value.bytes())?)
    }

    /// Copies the value to the host.
    ///
    /// # Errors
    /// If the host has no memory for it, or the device reports an error.
    pub fn read(&mut self) -> Result<Tensor, SessionError> {
        let ty = on_host(self.ty);
        let bytes = ty.bytes();
        let mut value = Tensor::try_zeros(ty).ok_or(SessionError::Memory(bytes))?;
        self.runner.read(self.place, value.bytes_for_all())?;
        Ok(value)
    }
}

impl Session {
    /// Returns an input in the memory of its device; `None` if it lies on the host. Inputs are numbered in the model's
    /// order.
    pub fn device_input(&mut self, input: usize) -> Option<DeviceTensor<'_>> {
        let (_, ty) = self.host.plan.inputs.get(input)?;
        let place = Place { base: Base::Input(input), offset: 0 };
        device_tensor(self.runner.as_deref_mut()?, ty, place)
    }

    /// Returns an output in the memory of its device; `None` if it lies on the host, or if it is a constant.
    pub fn device_output(&mut self, output: usize) -> Option<DeviceTensor<'_>> {
        let (_, ty, place) = self.host.plan.outputs.get(output)?;
        device_tensor(self.runner.as_deref_mut()?, ty, *place)
    }

    /// Runs the plan on the inputs that its device holds, and leaves the outputs there. Nothing is copied between the
    /// host and the device, except by steps of the plan.
    ///
    /// # Errors
    /// [`SessionError::OnHost`] if an input or an output lies on the host; otherwise as [`Session::run`].
    pub fn run_on_device(&mut self) -> Result<(), SessionError> {
        let plan = &self.host.plan;
        if let Some((name, _)) = ports(plan).find(|(_, ty)| ty.device == Device::Host) {
            return Err(SessionError::OnHost { name: name.to_owned() });
        }
        // Only a plan without inputs and outputs has no runner here, and it computes nothing.
        match &mut self.runner {
            Some(runner) => self.host.run_with(&mut **runner, &self.schedule, &[]),
            None => Ok(()),
        }
    }
}

fn device_tensor<'s>(
    runner: &'s mut dyn Runner,
    ty: &'s TensorType,
    place: Place,
) -> Option<DeviceTensor<'s>> {
    if !holds(ty, place) {
        return None;
    }
    let address = runner.address(place)?;
    Some(DeviceTensor { runner, ty, place, address })
}

/// Returns whether the device of a plan holds a value: constants that are outputs stay on the host.
pub(super) fn holds(ty: &TensorType, place: Place) -> bool {
    ty.device != Device::Host && !matches!(place.base, Base::Constant(_))
}

/// Copies the inputs that lie on the device there.
pub(super) fn write_inputs(
    runner: &mut dyn Runner,
    plan: &Plan,
    inputs: &[&Tensor],
) -> Result<(), BackendError> {
    for (at, ((_, ty), value)) in plan.inputs.iter().zip(inputs).enumerate() {
        if ty.device != Device::Host {
            runner.write(Place { base: Base::Input(at), offset: 0 }, value.bytes())?;
        }
    }
    Ok(())
}

/// Returns the names and types of inputs and outputs.
fn ports(plan: &Plan) -> impl Iterator<Item = (&str, &TensorType)> {
    let inputs = plan.inputs.iter().map(|(name, ty)| (&**name, ty));
    inputs.chain(plan.outputs.iter().map(|(name, ty, _)| (&**name, ty)))
}

/// Checks that a plan without steps on a device has no inputs and outputs there.
pub(super) fn host_alone(plan: &Plan) -> Result<(), BackendError> {
    match ports(plan).find(|(_, ty)| ty.device != Device::Host) {
        None => Ok(()),
        Some((port, ty)) => Err(elsewhere(port, ty, None)),
    }
}

/// Checks that the inputs and outputs of a plan lie on the host or on the one device that the plan's steps use.
pub(super) fn fits(plan: &Plan, name: &str) -> Result<(), BackendError> {
    let used: BTreeSet<Device> = plan.devices.iter().map(|arena| arena.device).collect();
    let absent = |ty: &TensorType| ty.device != Device::Host && !used.contains(&ty.device);
    match ports(plan).find(|(_, ty)| absent(ty)) {
        None => Ok(()),
        Some((port, ty)) => Err(elsewhere(port, ty, Some(name))),
    }
}

fn elsewhere(port: &str, ty: &TensorType, backend: Option<&str>) -> BackendError {
    BackendError::Elsewhere {
        port: port.to_owned(),
        ty: Box::new(ty.clone()),
        backend: backend.map(ToOwned::to_owned),
    }
}
