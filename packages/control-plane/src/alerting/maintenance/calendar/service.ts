export { calendarOf, type CalendarWindow } from "./calendar.ts";
export { maintenanceReader } from "./coverage.ts";
export { activeWindows, calendar, targetWindow, windowScope } from "./reads.ts";
