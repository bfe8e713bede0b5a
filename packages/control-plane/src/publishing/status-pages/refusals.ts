import { AppError } from "@statusmesh/shared/errors";

export const notFound = () => new AppError("STATUS_PAGE_NOT_FOUND", "Status page not found.");
