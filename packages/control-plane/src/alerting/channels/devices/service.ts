export { deleteDevice, deviceNames, listDevices, pushKey, registerDevice, testDevice } from "./devices.ts";
export { resealPushKeys, unreadablePushKeys } from "./push-keys.ts";
