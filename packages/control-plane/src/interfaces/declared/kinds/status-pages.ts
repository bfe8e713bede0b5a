import { validate } from "@statusmesh/shared/validate";
import { ComponentCreate, StatusPageCreate, type StatusPagePatch } from "../../../publishing/status-pages/schema.ts";
import { domainRules, pageRules, type StoredPage } from "../../../publishing/status-pages/service.ts";
import { changesBetween, fieldsOf } from "../compare.ts";
import type { Declared } from "../document.ts";
import { type Judged, judge, type Judging, listIn, refuse } from "./kind.ts";

/** A monitor on a page with its public texts. */
export interface DeclaredComponent {
  readonly target_id: string;
  readonly public_name: string | null;
  readonly public_description: string | null;
  readonly public_group: string | null;
}

/** A page with its components, in order, and its custom domain. */
export interface PageInput {
  readonly page: StatusPageCreate;
  readonly domain: string | null;
  readonly components: readonly DeclaredComponent[];
}

/** Compares a declared page with the stored one, null for a new one. Null where it has faults. */
export function judgePage(
  declared: Declared,
  stored: StoredPage | null,
  judging: Judging,
): Judged<PageInput, { patch: StatusPagePatch; components: readonly DeclaredComponent[] | null }> | null {
  const { pointer } = declared;
  const { components: _, custom_domain: wanted = null, ...body } = declared.fields;
  const components = readComponents(declared, judging);
  const page = judging.faults.check(() => validate(StatusPageCreate, body, pointer));
  if (page === undefined) return null;
  const branding = judge(judging, pointer, () => pageRules(page));
  if (wanted !== null && typeof wanted !== "string") {
    refuse(judging, "INVALID_CUSTOM_DOMAIN", "custom_domain must be a host name.", `${pointer}/custom_domain`);
    return null;
  }
  const domain = judge(judging, pointer, () => domainRules(judging.ctx, wanted));
  if (branding === undefined || domain === undefined) return null;
  const create: PageInput = { page, domain, components };
  const fresh = {
    slug: page.slug,
    name: page.name,
    // A page that was unpublished by hand stays so.
    ...(stored !== null && !("enabled" in declared.fields) ? {} : { enabled: page.enabled ?? true }),
    subscriptions_enabled: page.subscriptions_enabled ?? true,
    branding,
    custom_domain: domain,
    components: components.map((component) => shownComponent(component, judging)),
  };
  if (stored === null) {
    const written = Object.fromEntries(Object.entries(fresh).filter(([name]) => name in declared.fields));
    return { changes: changesBetween({}, written), create, edit: null };
  }
  const changes = changesBetween(
    {
      slug: stored.slug,
      name: stored.name,
      ...("enabled" in fresh ? { enabled: stored.enabled } : {}),
      subscriptions_enabled: stored.subscriptions_enabled,
      branding: stored.branding,
      custom_domain: stored.custom_domain,
      components: stored.components.map((component) => shownComponent(component, judging)),
    },
    fresh,
  );
  const changed = fieldsOf(changes);
  const { components: _shown, ...whole } = fresh;
  const patch = Object.fromEntries(Object.entries(whole).filter(([name]) => changed.has(name)));
  return { changes, create, edit: { patch, components: changed.has("components") ? components : null } };
}

const shownComponent = (component: DeclaredComponent, { references }: Judging) => ({
  monitor: references.shown(component.target_id),
  public_name: component.public_name,
  public_description: component.public_description,
  public_group: component.public_group,
});

function readComponents({ fields, pointer: base }: Declared, judging: Judging): DeclaredComponent[] {
  const { references, faults } = judging;
  const seen = new Set<string>();
  return listIn(judging, fields, "components", base).flatMap((item, at) => {
    const pointer = `${base}/components/${at}`;
    if (typeof item !== "object" || item === null || Array.isArray(item)) {
      refuse(judging, "INVALID_BODY", "A component is an object that names its monitor.", pointer);
      return [];
    }
    const { monitor, manual, target_id: outside, ...texts } = item as Record<string, unknown>;
    if (manual !== undefined) {
      refuse(judging, "UNKNOWN_FIELD", "There are no components without a monitor yet.", `${pointer}/manual`);
      return [];
    }
    const id =
      outside === undefined
        ? references.byKey("monitors", monitor, `${pointer}/monitor`, faults)
        : references.byId("monitors", outside, `${pointer}/target_id`, faults);
    if (id === null) return [];
    if (seen.size === seen.add(id).size) {
      refuse(judging, "COMPONENT_ALREADY_ON_PAGE", "This monitor is on the page twice.", pointer);
      return [];
    }
    const component = faults.check(() => validate(ComponentCreate, { ...texts, target_id: id }, pointer));
    if (component === undefined) return [];
    const { public_name = null, public_description = null, public_group = null } = component;
    return [{ target_id: id, public_name, public_description, public_group }];
  });
}
