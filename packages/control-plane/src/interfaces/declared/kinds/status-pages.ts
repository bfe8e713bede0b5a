import { AppError } from "@statusmesh/shared/errors";
import { isObject } from "@statusmesh/shared/json";
import { mask } from "@statusmesh/shared/secrets";
import { validate } from "@statusmesh/shared/schema/validate";
import { ComponentCreate, StatusPageCreate, type StatusPagePatch } from "../../../publishing/status-pages/schema.ts";
import { accessRules } from "../../../publishing/status-pages/access/service.ts";
import { domainRules } from "../../../publishing/status-pages/domains/service.ts";
import { pageRules, publishRules, type StoredPage } from "../../../publishing/status-pages/service.ts";
import {
  type WrittenComponent,
  writtenComponent,
  unusualShow,
} from "../../../publishing/status-pages/components/service.ts";
import { changedSecret, changesBetween, fieldsOf, only } from "../plan/compare.ts";
import type { Declared } from "../document/document.ts";
import { type Judged, judge, type Judging, listIn, refuse } from "./kind.ts";

/** A page with its components, in order, and its custom domain. */
export interface PageInput {
  readonly page: StatusPageCreate;
  readonly domain: string | null;
  readonly components: readonly WrittenComponent[];
}

/** How an apply changes a page; null for components that stay as they are. */
export interface PageEdit {
  readonly patch: StatusPagePatch;
  readonly components: readonly WrittenComponent[] | null;
}

/** Compares a declared page with the stored one, null for a new one. Null where it has faults. */
export function judgePage(
  declared: Declared,
  stored: StoredPage | null,
  judging: Judging,
): Judged<PageInput, PageEdit> | null {
  const { pointer } = declared;
  const { components: _, custom_domain: wanted = null, ...body } = declared.fields;
  const components = withStoredIds(readComponents(declared, judging), stored);
  const page = judging.faults.check(() => validate(StatusPageCreate, body, pointer));
  if (page === undefined) return null;
  const branding = judge(judging, pointer, () => pageRules(page));
  if (wanted !== null && typeof wanted !== "string") {
    refuse(judging, "INVALID_CUSTOM_DOMAIN", "custom_domain must be a host name.", `${pointer}/custom_domain`);
    return null;
  }
  const domain = judge(judging, pointer, () => domainRules(judging.ctx, wanted));
  const access = judge(judging, pointer, () => declaredAccess(page, stored, judging.ctx));
  const publish = judge(judging, pointer, () => publishRules(page.publish));
  if (branding === undefined || domain === undefined || access === undefined || publish === undefined) return null;
  // The same password would be hashed anew, and end the access of its readers.
  const samePassword = stored !== null && judging.samePasswords.has(stored.id);
  const create: PageInput = { page, domain, components };
  const fresh = {
    slug: page.slug,
    name: page.name,
    // A page that was unpublished manually stays so.
    ...(stored !== null && !("enabled" in declared.fields) ? {} : { enabled: page.enabled ?? true }),
    subscriptions_enabled: page.subscriptions_enabled ?? true,
    embed_origins: page.embed_origins ?? [],
    custom_css: page.custom_css ?? null,
    branding,
    // A page that was made private manually stays so.
    ...(access === null ? {} : { access: { ...access, password: shownPassword(page, stored, samePassword) } }),
    // So does a page whose publishing was set manually.
    ...(page.publish === undefined ? {} : { publish }),
    custom_domain: domain,
    components: components.map((component) => shownComponent(component, judging)),
  };
  if (stored === null) {
    const written = only(fresh, new Set(Object.keys(declared.fields)));
    return { changes: changesBetween({}, written), create, edit: null };
  }
  const changes = changesBetween(
    {
      slug: stored.slug,
      name: stored.name,
      ...("enabled" in fresh ? { enabled: stored.enabled } : {}),
      subscriptions_enabled: stored.subscriptions_enabled,
      embed_origins: stored.embed_origins,
      custom_css: stored.custom_css,
      branding: stored.branding,
      ...(access === null
        ? {}
        : { access: { ...stored.access, password: stored.access_password === null ? null : mask } }),
      ...(page.publish === undefined ? {} : { publish: stored.publish }),
      custom_domain: stored.custom_domain,
      components: stored.components.map((component) => shownComponent(component, judging)),
    },
    fresh,
  );
  const changed = fieldsOf(changes);
  const { components: _shown, access: _masked, ...whole } = fresh;
  const { password, ...kept } = page.access ?? { mode: "public" as const };
  const asked = { ...kept, ...(samePassword || password === undefined ? {} : { password }) };
  const patch = { ...only(whole, changed), ...(changed.has("access") ? { access: asked } : {}) };
  const edit = { patch, components: changed.has("components") ? components : null };
  return { changes, create, edit };
}

/** The access that a page declares; null for none. Throws INVALID_BODY. */
function declaredAccess({ access }: StatusPageCreate, stored: StoredPage | null, { config }: Judging["ctx"]) {
  if (access === undefined) return null;
  const rules = accessRules(access, config, stored?.access.mode ?? null);
  const hasPassword = access.password !== undefined || (stored?.access_password ?? null) !== null;
  if (rules.mode === "password" && !hasPassword)
    throw new AppError("INVALID_BODY", "Set the password that visitors enter.", { field: "/access/password" });
  return rules;
}

/** The password as plans show it. */
function shownPassword({ access }: StatusPageCreate, stored: StoredPage | null, isSame: boolean): string | null {
  if (access?.mode !== "password") return null;
  if (access.password !== undefined) return isSame ? mask : changedSecret;
  return stored?.access_password == null ? null : mask;
}

/** A component as plans show it: without its state, which is initial only. */
const shownComponent = ({ target_id: id, ...component }: Omit<WrittenComponent, "id">, { references }: Judging) => ({
  ...(id === null ? { manual: true } : { monitor: references.shown(id) }),
  public_name: component.public_name,
  public_description: component.public_description,
  public_group: component.public_group,
  ...(unusualShow(component.show) === undefined ? {} : { show: unusualShow(component.show) }),
});

/**
 * Declared components with the ids of the stored ones that they mean. One without a monitor is known by group and name,
 * else by its name; if one of each side is left over, it was renamed. All others are new.
 */
function withStoredIds(declared: readonly WrittenComponent[], stored: StoredPage | null): WrittenComponent[] {
  const free = (stored?.components ?? []).filter((component) => component.target_id === null);
  const ids = new Map<WrittenComponent, string>();
  const open = () => declared.filter((component) => component.target_id === null && !ids.has(component));
  const match = (isSame: (one: WrittenComponent, other: WrittenComponent) => boolean): void => {
    for (const component of open()) {
      const at = free.findIndex((other) => isSame(component, other));
      if (at >= 0) ids.set(component, free.splice(at, 1)[0]!.id);
    }
  };
  match((one, other) => one.public_name === other.public_name && one.public_group === other.public_group);
  match((one, other) => one.public_name === other.public_name);
  if (free.length === 1 && open().length === 1) match(() => true);
  return declared.map((component) => ({ ...component, id: ids.get(component) ?? component.id }));
}

function readComponents({ fields, pointer: base }: Declared, judging: Judging): WrittenComponent[] {
  const { references, faults } = judging;
  const seen = new Set<string>();
  return listIn(judging, fields, "components", base).flatMap((item, at) => {
    const pointer = `${base}/components/${at}`;
    if (!isObject(item)) {
      refuse(judging, "INVALID_BODY", "A component is an object that names its monitor, or has manual.", pointer);
      return [];
    }
    const { monitor, target_id: outside, manual = null, ...texts } = item;
    if ("sort_order" in texts) {
      refuse(judging, "INVALID_BODY", "Components have the order of the list.", `${pointer}/sort_order`);
      return [];
    }
    let target: { target_id?: string; manual?: unknown } = { manual };
    if (manual === null || monitor !== undefined || outside !== undefined) {
      if (manual !== null) {
        refuse(judging, "INVALID_BODY", "A component without a monitor names none.", `${pointer}/manual`);
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
      target = { target_id: id };
    }
    // Null is the default.
    const given = Object.fromEntries(Object.entries({ ...texts, ...target }).filter(([, value]) => value !== null));
    const component = faults.check(() => writtenComponent(validate(ComponentCreate, given, pointer), pointer));
    return component === undefined ? [] : [component];
  });
}
