export {
  addComponent,
  addComponents,
  inGroups,
  listComponents,
  removeComponent,
  reorderComponents,
  replaceComponents,
  unusualShow,
  updateComponent,
  writtenComponent,
} from "./components.ts";
export { type PublicComponentRow, type WrittenComponent } from "./queries.ts";
